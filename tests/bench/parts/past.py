"""How long the past of a server under full load is, as shipped: nginx, redis, MariaDB and PostgreSQL.

While its load goes on, the server's busiest process is killed; what its incident knows is the figure.
"""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from bench.lib.recorders import recorder
from bench.lib.servers import ended, on_cpu, quiet, servers
from bench.lib.table import Table

SECONDS, SECONDS_QUICK = 70, 5  # of load before the server dies: more than the minute of which facts are told
MIB, MS = 1 << 20, 1e6


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


def row(bench, name, program, loaded):
    seconds = SECONDS_QUICK if bench.quick else SECONDS
    with bench.daemon(config="[cost]\n") as watcher, loaded() as load:
        with ended(quiet(*on_cpu("clients"), *map(str, load.endless(10 * seconds)))):
            time.sleep(seconds)
            victim = busiest(program)
            used = recorder(watcher)["calls_bytes_used"]
            os.kill(victim, signal.SIGSEGV)
            incident = watcher.incident(victim)
    return (name, *known(incident), used / MIB)


def run(bench):
    rows = [row(bench, *one) for one in servers(bench)]
    columns = ("server", "busy threads", "shortest past, ms", "median", "calls kept", "facts of the last minute", "forgotten", "MiB of the pool")
    notes = [
        "past: how long before the trigger all calls of the thread are known; of the threads of the process that was killed",
        "a fact: a path, a peer, a failure, a slow call, memory that grew: once, with how often and when",
    ]
    return [Table("what is known of a server under full load, as shipped", columns, rows, notes)]
