"""How much history a MiB holds: system calls, and seconds of a thread that makes 1,000 of them a second.

The memory is what `incidentctl status` says the pool has given to a thread; the calls are those that its incident has
or says were left out of it.
"""

import subprocess

from bench.lib.recorders import recorder, rule
from bench.lib.table import Table

SETTINGS = (("", 60_000), ('calls = "16MiB"\n', 60_000), ('calls = "256MiB"\nmemory_limit = "1GiB"\n', 60_000))  # [record], calls made
RATE = 1000
MIB = 1 << 20


def recorded(bench, setting, calls):
    """Of a thread that died after so many paced calls: the bytes that its calls took, how many are kept in them."""
    program = bench.compiled("paced")
    with bench.daemon(rules=rule(program, "SIGTERM"), config="[record]\n" + setting) as watcher:
        before = recorder(watcher)["calls_bytes_used"]
        with subprocess.Popen([program, str(calls), str(RATE * 100)]) as victim:
            victim.wait()
        incident = watcher.incident(victim.pid)
        use = recorder(watcher)
    counts = incident.accounting(victim.pid)
    return use["calls_bytes"], use["calls_bytes_used"] - before, counts["recorded"] + counts["left_out"]


def row(bench, setting, calls):
    pool, took, kept = recorded(bench, setting, calls)
    per_mib = kept / (took / MIB)
    return (setting.split("\n")[0] or "as shipped", pool / MIB, kept, per_mib, pool / MIB * per_mib / RATE)


def strace_row(bench):
    """The same program's calls in the file that strace writes."""
    file, calls = bench.directory("strace") / "file", 1000
    victim = [bench.compiled("paced"), str(calls), str(RATE)]
    subprocess.run(["strace", "-f", "-ttt", "-T", "-o", file, *victim], check=False)
    lines = file.read_bytes().splitlines(keepends=True)
    written = [line for line in lines if b"clock_nanosleep" in line]
    per_mib = len(written) / (sum(map(len, written)) / MIB)
    return ("strace -f -ttt -T, its file", None, None, per_mib, None)


def run(bench):
    rows = [row(bench, *settings) for settings in SETTINGS[: 2 if bench.quick else None]]
    if bench.tool("strace"):
        rows.append(strace_row(bench))
    notes = [
        "calls per MiB: clock_nanosleep, each like the one before it; calls with other arguments each time take 30 bytes",
        "the last column: of a thread that makes 1,000 a second and has the whole pool to itself",
    ]
    columns = ("[record]", "MiB for calls", "calls kept of those made", "calls per MiB", "seconds in all of it")
    return [Table(f"history of a thread that makes {SETTINGS[0][1]:,} system calls", columns, rows, notes)]
