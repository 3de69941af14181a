"""Whether threads that make system calls in parallel stand in each other's way: 2 and 16, against an empty pair."""

from contextlib import nullcontext
from functools import partial

from bench.lib.loop import loop
from bench.lib.recorders import costs, empty_pair, watching, watching_another
from bench.lib.sample import alternate

THREADS = (2, 16)
CALLS, CALLS_QUICK = 4_000_000, 200_000  # of all threads together


def measured(program, calls, threads, attached):
    with attached(), loop(program) as one:
        return one.warm(calls // threads, threads)


def run(bench):
    program = bench.compiled("calls")
    calls = CALLS_QUICK if bench.quick else CALLS
    attached = {
        "nothing": nullcontext,
        "empty pair": partial(empty_pair, bench),
        "incidentd, recorded": partial(watching, bench, program),
        "incidentd, unwatched": partial(watching_another, bench),
    }
    tables = []
    for threads in THREADS:
        variants = {name: partial(measured, program, calls, threads, one) for name, one in attached.items()}
        found = alternate(variants, bench.rounds)
        note = "wall time over the calls of all threads, which run where the kernel puts them"
        tables.append(costs(f"getppid in {threads} threads in parallel", "ns a call", found, [note]))
    return tables
