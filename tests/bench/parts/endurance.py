"""Ten minutes of system calls at full rate in two recorded threads: the rings wrap, the daemon's memory stays as it is."""

from statistics import median
from threading import Thread
from time import monotonic, sleep

from bench.lib.loop import loop
from bench.lib.recorders import recorder, rule
from bench.lib.table import Table
from bench.parts.idle import cpu_ns, resident

SECONDS, SECONDS_QUICK = 600, 4
SAMPLES = 60
CALLS = 1_000_000  # of each thread, at once
CALLS_A_MIB = 30_000  # about: tests/bench/run history
MIB = 1 << 20


def busy(one, until, made):
    while monotonic() < until:
        one.run(CALLS, 2)
        made.append(2 * CALLS)


def run(bench):
    seconds = SECONDS_QUICK if bench.quick else SECONDS
    program = bench.compiled("calls")
    with bench.daemon(rules=rule(program)) as watcher, loop(program) as one:
        pid, made, sizes = watcher.process.pid, [], []
        begin, cpu = monotonic(), cpu_ns(watcher.process.pid)
        caller = Thread(target=busy, args=(one, begin + seconds, made))
        caller.start()
        while caller.is_alive():
            sizes.append(sum(resident(pid).values()) / MIB)
            sleep(seconds / SAMPLES)
        caller.join()
        took, cpu = monotonic() - begin, cpu_ns(pid) - cpu
        assert recorder(watcher)["threads_used"], "it was not recorded"
        kept = recorder(watcher)["calls_bytes"] / MIB * CALLS_A_MIB
        losses = [loss for loss in watcher.ctl.json("status")["losses"] if loss["count"]]
    rows = [
        ("calls made", sum(made)),
        ("a second", sum(made) / took),
        ("times the pool of calls was written over", sum(made) / kept),
        ("MiB resident at the beginning", sizes[0]),
        ("median", median(sizes)),
        ("most", max(sizes)),
        ("at the end", sizes[-1]),
        ("daemon, % of a CPU", cpu / took / 1e7),
        ("losses counted", sum(loss["count"] for loss in losses)),
    ]
    notes = [f"the pool holds about {kept:,.0f} calls"]
    notes += [f"lost: {loss['count']:,} of {loss['where']}: {loss['reason']}" for loss in losses]
    return [Table(f"{took:.0f} s at full rate", ("", "figure"), rows, notes)]
