"""How much history a MiB holds: system calls, and seconds of a thread that makes 1,000 of them a second.

The memory is what `incidentctl status` says of the recorder for some settings of [record], so everything that is kept
of each thread is in it; the calls and the seconds are those found in the incident of a thread that died.
"""

import subprocess

from bench.lib.recorders import recorder, rule
from bench.lib.table import Table

SETTINGS = ((4096, 128), (1024, 512), (256, 2048))  # threads, syscalls of each; the first are the defaults
RATE = 1000
MIB = 1 << 20


def recorded(bench, threads, calls):
    """The recorder's bytes; when the calls that are kept of a thread began, which made more than are kept."""
    program = bench.compiled("paced")
    config = f"[record]\nthreads = {threads}\nsyscalls = {calls}\n"
    with bench.daemon(rules=rule(program, "SIGTERM"), config=config) as watcher:
        memory = recorder(watcher)["memory_bytes"]
        with subprocess.Popen([program, str(calls + calls // 4), str(RATE)]) as victim:
            victim.wait()
        kept = watcher.incident(victim.pid).events("syscall")
    return memory, [call["t_ns"] for call in kept]


def row(bench, threads, calls):
    memory, began = recorded(bench, threads, calls)
    mib, seconds = memory / MIB, (began[-1] - began[0]) / 1e9
    per_mib = threads / mib
    kept = len(began)
    return (f"{threads} threads × {calls}", mib, kept, seconds, kept * per_mib, seconds * per_mib)


def strace_row(bench):
    """The same program's calls in the file that strace writes."""
    file, calls = bench.directory("strace") / "file", 1000
    victim = [bench.compiled("paced"), str(calls), str(RATE)]
    subprocess.run(["strace", "-f", "-ttt", "-T", "-o", file, *victim], check=False)
    lines = file.read_bytes().splitlines(keepends=True)
    written = [line for line in lines if b"clock_nanosleep" in line]
    per_mib = len(written) / (sum(map(len, written)) / MIB)
    return ("strace -f -ttt -T, its file", None, None, None, per_mib, per_mib / RATE)


def run(bench):
    rows = [row(bench, *settings) for settings in SETTINGS[: 2 if bench.quick else None]]
    if bench.tool("strace"):
        rows.append(strace_row(bench))
    notes = [
        "the recorder's MiB are taken at start, for as many threads as it is set to; per MiB: with that many threads",
        "strace's file grows without end: these are its latest MiB",
    ]
    columns = ("[record]", "MiB", "calls of a thread", "seconds of it", "calls per MiB", "thread-seconds per MiB")
    return [Table(f"history of threads that make {RATE:,} system calls a second", columns, rows, notes)]
