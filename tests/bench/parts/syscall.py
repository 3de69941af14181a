"""What one recorded system call costs (getppid, pinned), against an empty pair of programs and against other tools."""

import os
import subprocess
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.lib.loop import loop
from bench.lib.recorders import costs, getppid_variants
from bench.lib.sample import alternate

CALLS, CALLS_QUICK = 2_000_000, 100_000
TRACING = Path("/sys/kernel/tracing")
RAW_SYSCALLS = "raw_syscalls:sys_enter,raw_syscalls:sys_exit"

# The same record as incidentd's: the latest 128 calls of each thread with arguments, result and duration.
BPFTRACE = """
tracepoint:raw_syscalls:sys_enter /pid == cpid/ {
    @start[tid] = nsecs;
    @call[tid] = (args->id, args->args[0], args->args[1], args->args[2], args->args[3], args->args[4], args->args[5]);
}
tracepoint:raw_syscalls:sys_exit /@start[tid]/ {
    @latest[tid, @calls[tid] & 127] = (@call[tid], args->ret, nsecs - @start[tid]);
    @calls[tid]++;
    delete(@start[tid]);
}
"""


@contextmanager
def tracefs():
    """Where the classic tracepoints are; mounted for as long as it is needed."""
    if os.path.ismount(TRACING):
        yield
        return
    subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", TRACING], check=False)  # somebody may have begun to use it


def under(tool, program, calls, log):
    """The loop as the tool's child, followed from its first call on."""
    with open(log, "w", encoding="utf-8") as errors, loop(*tool, program, stderr=errors) as one:
        return one.warm(calls, 1)


def commands(bench):
    """{name: (command, without the program it is to run; calls it has time for in one of the recorder's)}."""
    kept = bench.directory("tools") / "kept"  # overwritten by each
    return {
        "strace -f": (["strace", "-f", "-o", kept], 1 / 50),
        "perf trace": (["perf", "trace", "-o", kept], 1 / 50),
        "perf record -e raw_syscalls:*": (["perf", "record", "-q", "-e", RAW_SYSCALLS, "-o", kept], 1 / 10),
        "bpftrace": (["bpftrace", "-o", kept, "-e", BPFTRACE, "-c"], 1 / 10),
    }


def others(bench, program, calls):
    """Those of the other recorders that run here."""
    found = {}
    for name, (command, share) in commands(bench).items():
        if not bench.tool(command[0]):
            continue
        log = bench.directory("tool") / "log"
        variant = partial(under, command, program, int(calls * share), log)
        try:
            variant()
        except (OSError, ValueError, AssertionError):
            bench.lacks(f"{name}: {' '.join(log.read_text().split()[-40:]) or 'did not run'}")
        else:
            found[name] = variant
    return found


def run(bench):
    program = bench.compiled("calls")
    calls = CALLS_QUICK if bench.quick else CALLS
    variants = getppid_variants(bench, program, calls, 1)
    with tracefs():
        found = alternate(variants | others(bench, program, calls), bench.rounds)
    notes = [
        "incidentd and bpftrace keep the latest 128 calls of a thread in memory; the others write all to a file",
        "perf record loses some events where its reader is too slow, and does not wait for it",
    ]
    return [costs("one getppid in a pinned loop", "ns a call", found, notes)]
