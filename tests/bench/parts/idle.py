"""What the daemon takes of the machine while nothing happens, with the shipped rules.

Its recorder runs in the kernel in those who make system calls: what that costs them is not here.
"""

import os
import re
from pathlib import Path
from time import monotonic, sleep

from bench.lib.sample import Sample
from bench.lib.table import Table

SHIPPED = Path(__file__).resolve().parents[3] / "systemd/rules.d"
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
WINDOWS, WINDOW, WINDOW_QUICK = 4, 5, 1.25  # s
MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+ *(.*)")


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def cpu_ns(pid):
    """Of all its threads: a tick is 10 ms, and may never be met."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text(encoding="utf-8").split()[0]) for path in threads)


def resident(pid):
    """{what is mapped: bytes}."""
    found, what = {"rings": 0, "anonymous": 0, "files": 0}, ""
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        if mapping := MAPPING.fullmatch(line):
            name = mapping[1]
            what = "rings" if name.startswith("anon_inode:") else "files" if name.startswith("/") else "anonymous"
        elif line.startswith("Rss:"):
            found[what] += int(line.split()[1]) * 1024
    return found


def windows(bench, pid):
    """% of one CPU in each, and all ticks."""
    shares, ticks, seconds = [], cpu_ticks(pid), WINDOW_QUICK if bench.quick else WINDOW
    for _ in range(WINDOWS):
        begin, before = monotonic(), cpu_ns(pid)
        sleep(seconds)
        shares.append((cpu_ns(pid) - before) / (monotonic() - begin) / 1e7)
    return Sample(shares), cpu_ticks(pid) - ticks, seconds * WINDOWS


def run(bench):
    rules = "".join(path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.toml")))
    with bench.daemon(rules=rules) as watcher:
        sleep(2)  # what it does at start is not idling
        share, ticks, seconds = windows(bench, watcher.process.pid)
        memory = resident(watcher.process.pid)
        status = watcher.ctl.json("status")
    cpu = Table(
        f"idle for {seconds:g} s with the shipped rules",
        ("", "median", "quartiles"),
        [("% of one CPU", share.median, share.spread), (f"ticks of {1000 // TICKS_A_SECOND} ms", ticks, None)],
        [f"load of the machine {os.getloadavg()[0]:.2f}: what others start and end, the daemon looks at"],
    )
    mib = {what: size / (1 << 20) for what, size in memory.items()}
    rows = [
        ("resident, all", sum(mib.values())),
        ("mapped rings of it", mib["rings"]),
        ("beyond the rings: anonymous", mib["anonymous"]),
        ("beyond the rings: pages of files", mib["files"]),
        ("beyond the rings, all", mib["anonymous"] + mib["files"]),
        ("kernel memory, as its status says", status["recorder"]["memory_bytes"] / (1 << 20)),
    ]
    return [cpu, Table("memory with the shipped rules", ("MiB", "resident"), rows)]
