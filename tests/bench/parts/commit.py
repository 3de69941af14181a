"""How long after the signal a bundle is committed: the whole of it on disk, without a core.

Each crash waits until the bundle of the one before is committed and explained.
"""

import re
from statistics import quantiles

from bench.lib.cores import machine_to_ourselves, no_cores
from bench.lib.crashing import crashing
from bench.lib.sample import Sample
from bench.lib.table import Table
from lib.daemon import CRASH_RULE

THREADS = (1, 100)
CRASHES, CRASHES_QUICK = 200, 10
CONFIG = "[storm]\nfull = 1000\n"  # they are all alike, and all are to be kept whole
COMMITTED = re.compile(r"\(committed ([\d.]+) ms after the trigger, ([\d.]+) ms of writing\)")


def measured(bench, threads):
    """Of each crash, as the daemon says: ms after the trigger, ms of them for writing."""
    with bench.daemon(rules=CRASH_RULE, config=CONFIG) as watcher:
        for _ in range(CRASHES_QUICK if bench.quick else CRASHES):
            with crashing(bench, threads) as one:
                one.crash()
            watcher.explained_incident(one.pid)
        said = watcher.log.read_text(encoding="utf-8", errors="replace")
    return [[float(ms) for ms in match] for match in COMMITTED.findall(said)]


def row(threads, crashes):
    committed, writing = (Sample(values) for values in zip(*crashes))
    p99 = quantiles(committed.values, n=100, method="inclusive")[98]
    name = f"{threads} thread{'s' * (threads > 1)}"
    return name, committed.n, committed.median, committed.spread, p99, max(committed.values), writing.median


def run(bench):
    with machine_to_ourselves(), no_cores():
        rows = [row(threads, measured(bench, threads)) for threads in THREADS]
    columns = ("ms", "crashes", "median", "quartiles", "p99", "worst", "of it writing")
    return [Table("from the signal to the committed bundle, no core", columns, rows)]
