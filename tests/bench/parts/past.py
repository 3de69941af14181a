"""How long the past of a server under full load is, as shipped: nginx, redis, MariaDB and PostgreSQL.

While its load goes on, the server's busiest process is killed; what its incident knows is the figure.
"""

import json
import os
import pwd
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from bench.lib.recorders import recorder
from bench.lib.table import Table
from bench.parts.servers import redis
from lib.postgres import BIN, postgres
from lib.users import open_to_others
from lib.wait import PATIENCE, until

SECONDS, SECONDS_QUICK = 70, 5  # of load before the server dies: more than the minute of which facts are told
CLIENTS = 8
MIB, MS = 1 << 20, 1e6


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


@contextmanager
def nginx(bench, program):
    """One worker that serves a small file; yields the command that loads it."""
    directory = bench.directory("nginx")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "index.html").write_text("<p>" + "x" * 600 + "</p>")
    (directory / "conf").write_text(
        f"daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log; user root;\n"
        "events { worker_connections 512; }\n"
        f"http {{ access_log {directory}/access.log; server {{ listen 127.0.0.1:{port}; root {directory}; }} }}\n"
    )
    with ended(quiet(program, "-p", directory, "-c", directory / "conf")):
        until((directory / "pid").exists, "nginx to listen")
        yield ["wrk", "-t1", f"-c{CLIENTS}", f"http://127.0.0.1:{port}/index.html", "-d"]


@contextmanager
def redis_loaded(bench, program):
    with redis(bench, program) as path:
        yield ["redis-benchmark", "-s", path, "-c", str(CLIENTS), "-t", "get,set", "-l", "-q"]


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
    with ended(quiet(program, "--no-defaults", *options)):
        until(path.exists, "mariadbd to listen")
        # far more than it can make until it is killed
        load = [f"--concurrency={CLIENTS}", "--iterations=1", "--number-of-queries=1000000000"]
        select = "--query=select host, user from global_priv"
        yield ["mysqlslap", f"--socket={path}", "-uroot", "--create-schema=mysql", "--no-drop", select, *load]


@contextmanager
def postgres_loaded(bench, _):
    directory = bench.directory("postgres")
    with postgres(directory):
        pgbench = [str(BIN / "pgbench"), "-h", str(directory), "-U", "postgres"]
        subprocess.run([*pgbench, "-i", "-q", "-s", "1", "postgres"], check=True, capture_output=True)
        yield [*pgbench, "-n", "-S", "-c", str(CLIENTS), "-j", "1", "postgres", "-T"]


SERVERS = {
    "nginx": (nginx, "nginx", "wrk"),
    "redis": (redis_loaded, "redis-server", "redis-benchmark"),
    "MariaDB": (mariadb, "mariadbd", "mysqlslap"),
    "PostgreSQL": (postgres_loaded, "postgres", "pgbench"),
}


def cpu_ticks(pid):
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def comm(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return None


def busiest(name):
    """The process of that name that takes most CPU time."""
    named = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and comm(entry) == name]
    before = {pid: cpu_ticks(pid) for pid in named}
    time.sleep(1)
    return max(named, key=lambda pid: cpu_ticks(pid) - before[pid])


def known(incident):
    """(threads with calls in the last second, ms of all calls of each, calls kept, facts of the last minute, forgotten)"""
    counts = [thread["accounting"] for thread in incident.threads if thread["accounting"]]
    busy = [one for one in counts if one["past_ns"] and one["recorded"] and one["overwritten"]] or [
        one for one in counts if one["past_ns"] and one["recorded"]
    ]
    pasts = [one["past_ns"] / MS for one in busy]
    facts = [json.loads(line) for line in incident.text("facts.jsonl").splitlines()]
    return (
        len(busy),
        min(pasts),
        median(pasts),
        sum(one["recorded"] + one["left_out"] for one in busy),
        sum(fact["minute"] > 0 for fact in facts),
        incident.quality["accounts"]["facts"]["forgotten"],
    )


def row(bench, name, make, program, load):
    server = bench.tool(program)
    if not server or not bench.tool(load):
        return None
    seconds = SECONDS_QUICK if bench.quick else SECONDS
    with bench.daemon(config="[cost]\n") as watcher, make(bench, server) as command:
        endless = command[-1] not in ("-d", "-T")
        with ended(quiet(*(command if endless else [*command, str(10 * seconds)]))):
            time.sleep(seconds)
            victim = busiest(program)
            used = recorder(watcher)["calls_bytes_used"]
            os.kill(victim, signal.SIGSEGV)
            incident = watcher.incident(victim)
    return (name, *known(incident), used / MIB)


def run(bench):
    rows = [found for name, how in SERVERS.items() if (found := row(bench, name, *how))]
    columns = ("server", "busy threads", "shortest past, ms", "median", "calls kept", "facts of the last minute", "forgotten", "MiB of the pool")
    notes = [
        "past: how long before the trigger all calls of the thread are known; of the threads of the process that was killed",
        "a fact: a path, a peer, a failure, a slow call, memory that grew: once, with how often and when",
    ]
    return [Table("what is known of a server under full load, as shipped", columns, rows, notes)]
