"""10,000 living processes, each recorded: what making them takes, and what the daemon takes while they live."""

import subprocess
from contextlib import contextmanager, nullcontext
from time import sleep

from bench.lib.cores import machine_to_ourselves, no_cores
from bench.lib.crashing import crashing
from bench.lib.table import Table
from bench.parts.idle import cpu_ns, resident
from lib.daemon import CRASH_RULE
from lib.wait import until

PROCESSES, PROCESSES_QUICK = 10_000, 500
WINDOW, WINDOW_QUICK = 10, 1  # s


@contextmanager
def crowd(bench, count):
    """ms until all of them lived."""
    command = [bench.compiled("crowd"), str(count)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        word, _, took = process.stdout.readline().partition(" ")
        assert word == "ready", "the crowd could not be made"
        yield float(took)
        process.stdin.close()
        process.wait()


def cpu_percent(bench, pid):
    seconds, before = WINDOW_QUICK if bench.quick else WINDOW, cpu_ns(pid)
    sleep(seconds)
    return (cpu_ns(pid) - before) / seconds / 1e7


def committed_ms(bench, watcher):
    """Of a crash beside them, as the log says."""
    with crashing(bench, 1) as one:
        one.crash()
        watcher.incident(one.pid)
    (line,) = until(lambda: [line for line in watcher.log.read_text().splitlines() if "committed" in line], "the log")
    return float(line.partition("(committed ")[2].partition(" ms")[0])


def beyond_rings(pid):
    memory = resident(pid)
    return (memory["anonymous"] + memory["files"]) / (1 << 20)


def row(bench, name, count, config):
    with bench.daemon(rules=CRASH_RULE, config=config) if config is not None else nullcontext() as watcher:
        with crowd(bench, count) as took:
            if watcher is None:
                return name, count, took, *(None,) * 6
            pid = watcher.process.pid
            use = watcher.ctl.json("status")["recorder"]
            recorded = min(use["threads_used"], count)
            figures = cpu_percent(bench, pid), beyond_rings(pid), committed_ms(bench, watcher)
            lost = sum(loss["count"] for loss in watcher.ctl.json("status")["losses"])
        return name, count, took, recorded, count - recorded, *figures, lost


def run(bench):
    count = PROCESSES_QUICK if bench.quick else PROCESSES
    room = f"[record]\nthreads = {count + 2000}\nprocesses = {count + 2000}\nmemory_limit = \"1GiB\"\n"
    with machine_to_ourselves(), no_cores():
        rows = [
            row(bench, "no tool", count, None),
            row(bench, "as shipped", count, ""),
            row(bench, "room for all", count, room),
        ]
    columns = (
        "", "processes", "ms until all live", "recorded", "beyond [record] threads", "% of a CPU while they wait",
        "MiB beyond the rings", "ms to a crash's bundle", "losses counted",
    )
    return [Table(f"{count:,} living processes", columns, rows)]
