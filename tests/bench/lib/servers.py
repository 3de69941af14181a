"""Servers of one's own under full load: nginx, redis, MariaDB and PostgreSQL, the server on one CPU, its clients on the others."""

import os
import pwd
import re
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from lib.postgres import BIN, postgres
from lib.users import open_to_others
from lib.wait import PATIENCE, until

REQUESTS, REQUESTS_QUICK = 300_000, 20_000
QUERIES, QUERIES_QUICK = 100_000, 5_000
SECONDS, SECONDS_QUICK = 5, 1
CLIENTS = 8


@dataclass
class Load:
    exe: str  # the file that the server runs
    endless: callable  # the command that keeps it busy for so many seconds, or longer
    kinds: dict  # {what: (unit, function that loads it once and returns how many a second)}


def quiet(*argv, **options):
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)


@contextmanager
def ended(process):
    """Asked to, for one that is killed leaves others behind."""
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def on_cpu(which):
    last = os.cpu_count() - 1
    return ["taskset", "-c", str(last) if which == "server" else f"0-{max(last - 1, 0)}"]


def said_by(command, pattern):
    """The number that a command prints."""
    argv = [*on_cpu("clients"), *map(str, command)]
    output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return float(re.search(pattern, output)[1])


@contextmanager
def nginx(bench, program):
    """One worker that serves a small file."""
    directory = bench.directory("nginx")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "index.html").write_text("<p>" + "x" * 600 + "</p>")
    (directory / "conf").write_text(
        f"daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log; user root;\n"
        "events { worker_connections 512; }\n"
        f"http {{ access_log {directory}/access.log; server {{ listen 127.0.0.1:{port}; root {directory}; }} }}\n"
    )
    load = ["wrk", "-t1", f"-c{CLIENTS}", f"http://127.0.0.1:{port}/index.html", "-d"]
    seconds = SECONDS_QUICK if bench.quick else SECONDS
    once = partial(said_by, [*load, seconds], r"Requests/sec:\s+([\d.]+)")
    with ended(quiet(*on_cpu("server"), program, "-p", directory, "-c", directory / "conf")):
        until((directory / "pid").exists, "nginx to listen")
        kinds = {"wrk, a file of 607 bytes": ("requests a second", once)}
        yield Load(os.path.realpath(program), lambda seconds: [*load, seconds], kinds)


@contextmanager
def redis(bench, program):
    directory = bench.directory("redis")
    path = directory / "socket"
    options = ["--port", "0", "--unixsocket", path, "--dir", directory, "--save", "", "--appendonly", "no"]
    load = ["redis-benchmark", "-s", path]
    count = REQUESTS_QUICK if bench.quick else REQUESTS

    def once(kind):
        return said_by([*load, "-t", kind, "-n", count, "--csv"], rf'"{kind}","([\d.]+)"')

    with ended(quiet(*on_cpu("server"), program, *options)):
        until(path.exists, "redis-server to listen")
        kinds = {f"redis-benchmark {kind}": ("requests a second", partial(once, kind)) for kind in ("GET", "SET")}
        yield Load(os.path.realpath(program), lambda _: [*load, "-c", CLIENTS, "-t", "get,set", "-l", "-q"], kinds)


@contextmanager
def mariadb(bench, program):
    user = pwd.getpwnam("mysql")
    directory = bench.directory("mariadb")
    os.chown(directory, user.pw_uid, user.pw_gid)
    open_to_others(directory.parent)
    data, path = directory / "data", directory / "socket"
    made = ["mariadb-install-db", f"--datadir={data}", "--user=mysql", "--auth-root-authentication-method=normal"]
    subprocess.run(made, check=True, capture_output=True)
    options = [f"--datadir={data}", f"--socket={path}", "--skip-networking", "--user=mysql", f"--pid-file={directory}/pid"]
    query = ["--create-schema=mysql", "--no-drop", "--query=select host, user from global_priv"]
    load = ["mysqlslap", f"--socket={path}", "-uroot", f"--concurrency={CLIENTS}", "--iterations=1", *query]
    count = QUERIES_QUICK if bench.quick else QUERIES

    def once():
        return count / said_by([*load, f"--number-of-queries={count}"], r"Average number of seconds to run all queries: ([\d.]+)")

    with ended(quiet(*on_cpu("server"), program, "--no-defaults", *options)):
        until(path.exists, "mariadbd to listen")
        kinds = {"mysqlslap, one SELECT": ("queries a second", once)}
        yield Load(os.path.realpath(program), lambda _: [*load, "--number-of-queries=1000000000"], kinds)


@contextmanager
def postgresql(bench, program):
    directory = bench.directory("postgres")
    seconds = SECONDS_QUICK if bench.quick else SECONDS
    with postgres(directory, prefix=on_cpu("server")):
        pgbench = [BIN / "pgbench", "-h", directory, "-U", "postgres"]
        scale = "1" if bench.quick else "10"
        subprocess.run([*pgbench, "-i", "-q", "-s", scale, "postgres"], check=True, capture_output=True)
        load = [*pgbench, "-n", "-S", "-c", CLIENTS, "-j", "1", "postgres", "-T"]
        once = partial(said_by, [*load, seconds], r"tps = ([\d.]+)")
        kinds = {"pgbench -S": ("transactions a second", once)}
        yield Load(os.path.realpath(program), lambda seconds: [*load, seconds], kinds)


# {name: (what starts it, its program, the programs that load it)}
SERVERS = {
    "nginx": (nginx, "nginx", ["wrk"]),
    "redis": (redis, "redis-server", ["redis-benchmark"]),
    "MariaDB": (mariadb, "mariadbd", ["mysqlslap", "mariadb-install-db"]),
    "PostgreSQL": (postgresql, "postgres", ["pgbench"]),
}


def servers(bench):
    """(name, its program's name, what starts it with its load) of those that this machine has."""
    for name, (make, program, tools) in SERVERS.items():
        paths = [bench.tool(tool) for tool in [program, *tools]]
        if all(paths):
            yield name, program, partial(make, bench, paths[0])
