"""What recording the heap costs a pair of malloc and free, against empty probes on them.

The empty ones: an entry and a return of malloc and an entry of free, at the functions' entries, and "there", where the
daemon puts its own: at an instruction that the kernel need not single-step.
"""

import os
import shutil
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.lib.loop import bare_probes, loop
from bench.lib.sample import added, alternate, ratio
from bench.lib.table import Table
from lib.heap_victim import Code, is_recorded, offset_of, rule, symbols
from lib.wait import until

SIZES = {64: "64 B", 1 << 20: "1 MiB, mapped and unmapped by libc"}
LEVELS = ("pages", "sizes", "history")
PAIRS, PAIRS_QUICK = 100_000, 10_000
ENVIRONMENT = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}  # or it would grow with the first free


def pairs_of(bench, size):
    pairs = PAIRS_QUICK if bench.quick else PAIRS
    return pairs if size == 64 else pairs // 10


def libc_of(pid):
    (libc,) = {mapped[3] for mapped in Code(pid).mapped if "/libc.so" in mapped[3]}
    return libc


def behind_entry(pid, name):
    """How far behind a function's entry its probe stands in a recorded process."""
    mapped, filed = Code(pid).bytes_at(libc_of(pid), name, True)
    return next(i for i, (one, other) in enumerate(zip(mapped, filed)) if one != other)


@contextmanager
def recorded(bench, program, level):
    """A loop whose heap a daemon records."""
    with ExitStack() as stack:
        watcher = stack.enter_context(bench.daemon(rules=rule(str(program), level)))
        one = stack.enter_context(loop(program, env=ENVIRONMENT))
        if level != "pages":  # which needs no probes
            until(lambda: is_recorded(watcher, one.pid), "probes", watcher.tail)
        yield one


def nothing(program, pairs, size):
    with loop(program, env=ENVIRONMENT) as one:
        return one.warm(pairs, size)


def bare(bench, program, pairs, size, behind):
    with loop(program, env=ENVIRONMENT) as one:
        libc = libc_of(one.pid)
        at = {name: offset_of(libc, symbols(libc, True)[name][0]) + behind.get(name, 0) for name in ("malloc", "free")}
        places = [f"{at['malloc']:#x}", f"{at['malloc']:#x}r", f"{at['free']:#x}"]
        with bare_probes(bench, one.pid, libc, places):
            return one.warm(pairs, size)


def ours(bench, program, pairs, size, level):
    with recorded(bench, program, level) as one:
        return one.warm(pairs, size)


def measured(bench, program, copies, size, behind):
    pairs = pairs_of(bench, size)
    variants = {
        "nothing": partial(nothing, program, pairs, size),
        "bare, at the entries": partial(bare, bench, program, pairs, size, {}),
        "bare, there": partial(bare, bench, program, pairs, size, behind),
    }
    for level, copy in copies.items():
        variants[f'"{level}"'] = partial(ours, bench, copy, pairs, size, level)
    return alternate(variants, bench.rounds)


def table(size, found):
    base = found["nothing"]
    entries, there = (added(found[name], base) for name in ("bare, at the entries", "bare, there"))
    rows = []
    for name, sample in found.items():
        more = added(sample, base)
        shares = (more.median, more.spread, ratio(more, there), ratio(more, entries))
        rows.append((name, sample.median, *(shares if sample is not base else (None,) * 4)))
    columns = ("a pair, ns of CPU", "median", "added", "quartiles", "× bare, there", "× bare, entries")
    return Table(f"malloc + free of {SIZES[size]}", columns, rows)


def run(bench):
    program, directory = bench.compiled("heap_loop", "-fno-builtin"), bench.directory("heap")
    copies = {level: shutil.copy(program, directory / f"loop-{level}") for level in LEVELS}
    with recorded(bench, copies["history"], "history") as one:
        behind = {name: behind_entry(one.pid, name) for name in ("malloc", "free")}
    return [table(size, measured(bench, program, copies, size, behind)) for size in SIZES]
