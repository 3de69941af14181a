"""How long incidentctl takes to read: a list of 10,000 bundles, one of them, a timeline of 100,000 events.

Beside it what reads the same files and does nothing with them.  All of it is in the page cache.
"""

import subprocess
from subprocess import DEVNULL
from time import monotonic

from bench.lib.bundles import bundle_of, multiply
from bench.lib.cores import machine_to_ourselves, no_cores
from bench.lib.crashing import crashing
from bench.lib.sample import alternate, ratio
from bench.lib.table import Table
from lib.daemon import CRASH_RULE

BUNDLES, BUNDLES_QUICK = 10_000, 500
CALLS = 4096  # of each thread, all of them kept
THREADS, THREADS_QUICK = 25, 5
MANY_CALLS = f"[record]\nsyscalls = {CALLS}\nthreads = 256\n"
OF_THE_CRASHING = CRASH_RULE + 'match = { comm = ["crash"] }\n'  # others would take the threads


def crash(bench, threads, calls=0):
    with crashing(bench, threads, calls) as one:
        one.crash()
    return one.pid


def ms(command):
    begin = monotonic()
    subprocess.run(command, check=True, stdin=DEVNULL, stdout=DEVNULL)
    return (monotonic() - begin) * 1e3


def table(bench, title, commands, notes=()):
    """commands: {what is shown: command}, each read beside the one before it: theirs, ours."""
    for command in commands.values():
        ms(command)  # what it reads is in memory from here on
    found = alternate({name: lambda command=command: ms(command) for name, command in commands.items()}, bench.rounds)
    theirs = next(iter(found.values()))
    rows = [
        (name, sample.median, sample.spread, None if sample is theirs else ratio(sample, theirs))
        for name, sample in found.items()
    ]
    return Table(title, ("ms", "median", "quartiles", f"× {next(iter(commands))}"), rows, notes)


def listing(bench):
    count = BUNDLES_QUICK if bench.quick else BUNDLES
    with bundle_of(bench, CRASH_RULE, "", lambda: crash(bench, 1)) as (watcher, bundle):
        multiply(bundle, count)
        incidentctl, incidents = watcher.ctl.command, watcher.state / "incidents"
        watcher.ctl.text("verify", watcher.incidents()[0].id)  # a copy is as good as its original
        commands = {
            "find … cat": ["find", str(incidents), "-name", "incident.json", "-exec", "cat", "{}", "+"],
            "list": [*incidentctl, "list"],
            "--json list": [*incidentctl, "--json", "list"],
            "list -n 20": [*incidentctl, "list", "-n", "20"],
        }
        yield table(bench, f"{count:,} bundles", commands, ["find looks into every directory, list does not"])
        commands = {
            "cat": ["cat", f"{bundle}/incident.json", f"{bundle}/threads.json", f"{bundle}/timeline.jsonl"],
            "--version": [incidentctl[0], "--version"],
            "info": [*incidentctl, "info", bundle.name],
            "info, the newest": [*incidentctl, "info"],
            "--json info": [*incidentctl, "--json", "info", bundle.name],
        }
        yield table(bench, f"one bundle of {count:,}", commands)


def timeline(bench):
    threads = THREADS_QUICK if bench.quick else THREADS
    with bundle_of(bench, OF_THE_CRASHING, MANY_CALLS, lambda: crash(bench, threads, CALLS)) as (watcher, bundle):
        events = (bundle / "timeline.jsonl").read_bytes().count(b"\n")
        commands = {
            "cat": ["cat", f"{bundle}/timeline.jsonl"],
            "timeline": [*watcher.ctl.command, "timeline", bundle.name],
            "--json timeline": [*watcher.ctl.command, "--json", "timeline", bundle.name],
            "timeline -n 20": [*watcher.ctl.command, "timeline", "-n", "20", bundle.name],
        }
        return table(bench, f"a timeline of {events:,} events, {threads} threads", commands)


def run(bench):
    with machine_to_ourselves(), no_cores():
        return [*listing(bench), timeline(bench)]
