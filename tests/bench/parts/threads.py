"""Whether threads that make system calls in parallel stand in each other's way: 2 and 16, against an empty pair."""

from bench.lib.recorders import costs, getppid_variants
from bench.lib.sample import alternate

THREADS = (2, 16)
CALLS, CALLS_QUICK = 4_000_000, 200_000  # of all threads together
NOTE = "wall time over the calls of all threads, which run where the kernel puts them"


def table(bench, threads):
    calls = CALLS_QUICK if bench.quick else CALLS
    found = alternate(getppid_variants(bench, bench.compiled("calls"), calls, threads), bench.rounds)
    return costs(f"getppid in {threads} threads in parallel", "ns a call", found, [NOTE])


def run(bench):
    return [table(bench, threads) for threads in THREADS]
