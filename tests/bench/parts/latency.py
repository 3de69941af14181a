"""What a latency rule costs a call of its function, against an empty uprobe and uretprobe at the same place.

Each variant has a copy of the program of its own, so that probes on one are none on the others.
"""

import shutil
from functools import partial

from bench.lib.loop import bare_probes, loop
from bench.lib.sample import added, alternate, ratio
from bench.lib.table import Table
from lib.heap_victim import Code, offset_of, symbols
from lib.wait import until

FUNCTIONS = {
    "emulated": "on an entry that is a push: the kernel carries it out itself",
    "stepped": "on an entry that is a lea: the processor is made to step through it",
}
CALLS, CALLS_QUICK = {"emulated": 1_000_000, "stepped": 200_000}, 20_000


def rule(program, function, when):
    return (
        f'[[rule]]\nname = "slow"\non = "latency"\nprobe = "uprobe:{program}:{function}"\nthreshold = "1h"\n'
        f'when = "{when}"\nmax_rate = 10000000\nmatch = {{ exe = ["{program}"] }}\n'
    )


def is_probed(pid, program, function):
    mapped, filed = Code(pid).bytes_at(str(program), function, False)
    return mapped != filed


def nothing(program, function, calls):
    with loop(program) as one:
        return one.warm(calls, function)


def bare(bench, program, function, calls):
    place = f"{offset_of(program, symbols(program)[function][0]):#x}"
    with loop(program) as one, bare_probes(bench, one.pid, program, [place, f"{place}r"]):
        return one.warm(calls, function)


def ours(bench, program, function, calls, when):
    with bench.daemon(rules=rule(program, function, when)) as watcher, loop(program) as one:
        until(lambda: is_probed(one.pid, program, function), "the probe", watcher.tail)
        return one.warm(calls, function)


def measured(bench, function):
    calls = CALLS_QUICK if bench.quick else CALLS[function]
    directory = bench.directory("latency")
    names = ("nothing", "bare pair", 'when = "return"', 'when = "deadline"')
    copies = [shutil.copy(bench.compiled("probed_calls"), directory / f"calls{i}") for i in range(len(names))]
    variants = {
        names[0]: partial(nothing, copies[0], function, calls),
        names[1]: partial(bare, bench, copies[1], function, calls),
        names[2]: partial(ours, bench, copies[2], function, calls, "return"),
        names[3]: partial(ours, bench, copies[3], function, calls, "deadline"),
    }
    return alternate(variants, bench.rounds)


def table(function, found):
    base, pair = found["nothing"], added(found["bare pair"], found["nothing"])
    rows = []
    for name, sample in found.items():
        more = added(sample, base)
        shares = (more.median, more.spread, ratio(more, pair)) if sample is not base else (None, None, None)
        rows.append((name, sample.median, *shares))
    columns = ("a call, ns of CPU", "median", "added", "quartiles", "× bare pair")
    return Table(f"latency rule {FUNCTIONS[function]}", columns, rows)


def run(bench):
    return [table(function, measured(bench, function)) for function in FUNCTIONS]
