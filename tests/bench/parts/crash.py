"""What a capture adds to a crash: from the fault until the parent's waitpid returns, beside other tools.

gcore takes the core of such a process while it lives; the others have it die.  Nothing is pinned: the threads of a
dying process die on all processors.
"""

import subprocess
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from subprocess import DEVNULL
from time import monotonic, sleep

from bench.lib.cores import machine_to_ourselves, no_cores, remove_cores, systemd_coredump
from bench.lib.crashing import crashing
from bench.lib.sample import added, alternate, ratio
from bench.lib.table import Table
from lib.daemon import CRASH_RULE
from lib.wait import until

THREADS, THREADS_QUICK = (1, 10, 100, 1000), (1, 100)
CRASHES = 3  # of a turn; the median counts
LEAVE_ALONE = 0.3  # s after each: bundles are written, cores compressed
CONFIG = "[capture]\nanalyse = false\n"  # at low priority, but there are few processors


def crash(bench, threads):
    with crashing(bench, threads) as one:
        took = one.crash()
    sleep(LEAVE_ALONE)
    return took


def crashes(bench, threads):
    crash(bench, threads)  # the first finds everything cold
    return median(crash(bench, threads) for _ in range(CRASHES))


@contextmanager
def incidentd(bench, captured):
    """captured: gets how many threads each bundle has whole, for what is not kept costs nothing."""
    with bench.daemon(rules=CRASH_RULE, config=CONFIG) as watcher:
        yield
        until(lambda: len(watcher.incidents()) == CRASHES + 1, "a bundle of each crash", watcher.tail)
        captured += (incident.quality["threads_captured"] for incident in watcher.incidents())


@contextmanager
def coredump():
    try:
        with systemd_coredump():
            yield
    finally:
        remove_cores("crash")


def died(bench, threads, *around):
    """around: what is there meanwhile, as functions that make a context."""
    with ExitStack() as stack:
        for context in around:
            stack.enter_context(context())
        return crashes(bench, threads)


def gcore(bench, threads, tool):
    with crashing(bench, threads) as one:
        begin = monotonic()
        command = [tool, "-o", bench.directory("gcore") / "core", str(one.pid)]
        subprocess.run(command, check=True, stdout=DEVNULL, stderr=DEVNULL)
        return (monotonic() - begin) * 1e3


def is_traced(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return "TracerPid:\t0\n" not in status.read()


def procdump(bench, threads, tool):
    with no_cores(), crashing(bench, threads) as one:
        command = [tool, "-G", "11", str(one.pid), bench.directory("procdump")]
        with subprocess.Popen(command, stdout=DEVNULL, stderr=DEVNULL) as watcher:
            try:
                until(lambda: is_traced(one.pid), "procdump to attach")
                return one.crash()
            finally:
                watcher.terminate()


def variants(bench, threads, captured):
    ours = partial(incidentd, bench, captured)
    found = {
        "no tool": partial(died, bench, threads, no_cores),
        "incidentd": partial(died, bench, threads, no_cores, ours),
    }
    if bench.tool("systemd-socket-activate"):
        found["systemd-coredump"] = partial(died, bench, threads, coredump)
        found["systemd-coredump + incidentd"] = partial(died, bench, threads, coredump, ours)
    for name, measure, title in (("gcore", gcore, "gcore, alive"), ("procdump", procdump, "procdump -G 11")):
        if tool := bench.tool(name):
            found[title] = partial(measure, bench, threads, tool)
    return found


def table(bench, threads):
    captured = []
    found = alternate(variants(bench, threads, captured), bench.rounds)
    base = found["no tool"]
    rows = []
    for name, sample in found.items():
        more = added(sample, base)
        shares = (more.median, more.spread, ratio(sample, base)) if sample is not base else (None, None, None)
        rows.append((name, sample.median, sample.spread, *shares))
    columns = ("ms", "median", "quartiles", "added", "quartiles", "× no tool")
    whole = f"{captured.count(threads)} of {len(captured)} bundles have all threads whole, the poorest {min(captured)}"
    return Table(f"crash of a process with {threads} thread{'s' * (threads > 1)}", columns, rows, [whole])


def run(bench):
    with machine_to_ourselves():
        return [table(bench, threads) for threads in (THREADS_QUICK if bench.quick else THREADS)]
