"""What is left of a server's throughput while it is recorded: redis (GET, SET) and PostgreSQL (pgbench -S)."""

import os
import re
import subprocess
from contextlib import contextmanager
from functools import partial

from bench.lib.recorders import attachments, measured_with, shares
from bench.lib.sample import alternate
from lib.postgres import SERVER, postgres
from lib.wait import PATIENCE, until

REQUESTS, REQUESTS_QUICK = 300_000, 20_000
SECONDS, SECONDS_QUICK = 5, 1
CLIENTS = 4


def output(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def processors():
    """Of the server, of its load: the last, the others."""
    last = os.cpu_count() - 1
    return str(last), f"0-{max(last - 1, 0)}"


@contextmanager
def redis(bench, program):
    """One of its own, on a socket; yields the socket."""
    directory = bench.directory("redis")
    socket = directory / "socket"
    options = ["--port", "0", "--unixsocket", socket, "--dir", directory, "--save", "", "--appendonly", "no"]
    command = ["taskset", "-c", processors()[0], program, *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until(socket.exists, "redis-server to listen")
        yield socket
    finally:
        process.terminate()
        process.wait(PATIENCE)


def compared(bench, exe, throughput):
    throughput()  # what has to be cached is cached then
    return alternate(measured_with(attachments(bench, os.path.realpath(exe)), throughput), bench.rounds)


def redis_requests(socket, kind, count):
    load = ["-s", socket, "-t", kind, "-n", str(count), "--csv"]
    said = output("taskset", "-c", processors()[1], "redis-benchmark", *load)
    return float(re.search(rf'"{kind}","([\d.]+)"', said)[1])


def redis_tables(bench):
    program = bench.tool("redis-server")
    if not program or not bench.tool("redis-benchmark"):
        return []
    count = REQUESTS_QUICK if bench.quick else REQUESTS
    tables = []
    with redis(bench, program) as socket:
        for kind in ("GET", "SET"):
            found = compared(bench, program, partial(redis_requests, socket, kind, count))
            tables.append(shares(f"redis-benchmark {kind}, 50 clients on a unix socket", "requests a second", found))
    return tables


def pgbench_transactions(pgbench, directory, seconds):
    load = ["-n", "-S", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds)]
    said = output(pgbench, "-h", directory, "-U", "postgres", *load, "postgres")
    return float(re.search(r"tps = ([\d.]+)", said)[1])


def postgres_tables(bench):
    pgbench = bench.tool("pgbench")
    if not pgbench:
        return []
    directory = bench.directory("postgres")
    with postgres(directory):
        output(pgbench, "-h", directory, "-U", "postgres", "-i", "-q", "-s", "1" if bench.quick else "10", "postgres")
        seconds = SECONDS_QUICK if bench.quick else SECONDS
        found = compared(bench, SERVER, partial(pgbench_transactions, pgbench, directory, seconds))
    return [shares(f"pgbench -S, {CLIENTS} clients on a unix socket", "transactions a second", found)]


def run(bench):
    return redis_tables(bench) + postgres_tables(bench)
