"""What recording a system call cannot cost less than: empty programs, and the helpers they would have to call."""

from contextlib import nullcontext
from functools import partial

from bench.lib.loop import held
from bench.lib.recorders import WITHOUT_DURATIONS, costs, getppid, recording
from bench.lib.sample import alternate

CALLS, CALLS_QUICK = 2_000_000, 100_000

# {name: the helpers at entry and return}, see programs/empty_pair.c
PROGRAMS = {
    "empty pair": ("", ""),
    "  only at entry": ("", "-"),
    "  only at return": ("-", ""),
    "pair that asks who": ("t", "t"),
    "pair that looks into a map": ("c", "c"),
    "pair, clock at return": ("", "k"),
    "pair, clock twice": ("k", "k"),
    "pair, who, clock at return": ("t", "tk"),
    "pair, who, jiffies and clock": ("tj", "tk"),
    "pair, who, clock twice": ("tk", "tk"),
    "only at return: clock": ("-", "k"),
    "only at return: who and clock": ("-", "tk"),
}


def pair(bench, entry, at_return):
    return held([bench.compiled("empty_pair", "-lbpf"), entry, at_return])


def run(bench):
    program = bench.compiled("calls")
    calls = CALLS_QUICK if bench.quick else CALLS
    variants = {"nothing": partial(getppid, program, calls, 1, nullcontext)}
    for name, helpers in PROGRAMS.items():
        variants[name] = partial(getppid, program, calls, 1, partial(pair, bench, *helpers))
    variants["incidentd: all of a call"] = partial(getppid, program, calls, 1, partial(recording, bench, program))
    variants["incidentd: without duration"] = partial(
        getppid, program, calls, 1, partial(recording, bench, program, WITHOUT_DURATIONS)
    )
    notes = [
        "who: bpf_get_current_task_btf; clock: bpf_ktime_get_ns; a duration takes both of them twice",
        "the coarse clock of the last tick (bpf_ktime_get_coarse_ns) is refused to programs of this type",
    ]
    return [costs("one getppid in a pinned loop", "ns a call", alternate(variants, bench.rounds), notes)]
