"""More than anybody should ask of it: 1,000 crashes at once, 10,000 threads, 200 rules, 100,000 bundles.

What is not kept must have been counted; each row says so.
"""

import re
from contextlib import contextmanager, nullcontext
from pathlib import Path
from subprocess import DEVNULL, run as run_program
from time import monotonic

from bench.lib.bundles import multiply
from bench.lib.cores import machine_to_ourselves, no_cores
from bench.lib.crashing import crashing
from bench.lib.sample import Sample, alternate, ratio
from bench.lib.table import Table
from lib.daemon import CRASH_RULE
from lib.wait import until

SHIPPED = Path(__file__).resolve().parents[3] / "systemd/rules.d/crash.toml"
CRASHES, CRASHES_QUICK = 1000, 100
THREADS, THREADS_QUICK = 10_000, 1000
RULES = 200
BUNDLES, BUNDLES_QUICK = 100_000, 2000
COMMITTED = re.compile(r"\(committed ([\d.]+) ms after the trigger")


def crash(bench, threads=1):
    """Its pid, and how many ms its parent had to wait for its end."""
    with crashing(bench, threads) as one:
        return one.pid, one.crash()


def committed_ms(watcher, count, seen=0):
    """Of so many bundles, from the trigger on, as the log says behind its first bytes; that comes after them."""

    def said():
        log = watcher.log.read_bytes()[seen:].decode(errors="replace")
        found = COMMITTED.findall(log)
        return [float(ms) for ms in found] if len(found) == count else None

    return until(said, f"{count} bundles to be told of", watcher.tail)


# 1,000 crashes


def accounted(watcher, crashes):
    """What became of them, as soon as nothing is under way."""

    def settled():
        said = watcher.ctl.json("status")["incidents"]
        ended = sum(said[what] for what in ("committed", "suppressed", "counted", "failed"))
        return said if not said["pending"] and ended >= crashes else None

    return until(settled, f"{crashes} crashes to be accounted for", watcher.tail)


def slow_disk(bench):
    """A command's prefix: each flush takes 50 ms more."""
    preloaded = bench.compiled("slow_flush", "-shared", "-fPIC")
    return ["env", f"LD_PRELOAD={preloaded}", "SLOW_FLUSH_MS=50"]


def storm_row(bench, name, crashes, rules, config, prefix=()):
    with bench.daemon(rules=rules, config=config, prefix=prefix) if rules else nullcontext() as watcher:
        begin = monotonic()
        command = ["prlimit", "--core=0", bench.build / "tests/victims/storm", str(crashes)]
        run_program(command, check=True, stdout=DEVNULL)
        died = monotonic() - begin
        if not rules:
            return name, crashes, died, *(None,) * 8
        said = accounted(watcher, crashes)
        settled = monotonic() - begin
        fates = [said[what] for what in ("committed", "suppressed", "counted", "failed")]
        adds_up = "yes" if sum(fates) == crashes else f"no: {sum(fates):,}"
        status = watcher.ctl.json("status")
        lost_events = sum(loss["count"] for loss in status["losses"])
        return name, crashes, died, settled, *fates, lost_events, len(status["signatures"]), adds_up


def crashes_at_once(bench):
    crashes = CRASHES_QUICK if bench.quick else CRASHES
    shipped = SHIPPED.read_text(encoding="utf-8")
    rows = [
        storm_row(bench, "no tool", crashes, None, ""),
        storm_row(bench, "shipped rule", crashes, shipped, ""),
        storm_row(bench, "alike: 2 whole, 3 light", crashes, CRASH_RULE, "[storm]\nfull = 2\nlight = 3\n"),
        storm_row(bench, "all to be kept whole", crashes, CRASH_RULE, f"[storm]\nfull = {2 * crashes}\n"),
        storm_row(bench, "shipped rule, slow disk", crashes, shipped, "", slow_disk(bench)),
    ]
    columns = (
        "", "crashes", "s until all died", "s until all accounted for", "bundles", "suppressed by the rule",
        "counted as alike", "lost", "losses of events", "signatures", "adds up",
    )
    notes = ["slow disk: each flush takes 50 ms more; a bundle has two and more"]
    return Table(f"{crashes:,} crashes as fast as they can be forked", columns, rows, notes)


# 10,000 threads


def threads_row(bench, name, threads, config, notes):
    if config is None:
        return name, threads, crash(bench, threads)[1], *(None,) * 5
    with bench.daemon(rules=CRASH_RULE, config=config + "[capture]\nanalyse = false\n") as watcher:
        pid, took = crash(bench, threads)
        incident = watcher.incident(pid)
        for loss in incident.quality["losses"]:
            notes.append(f"{name}: {loss['count']:,} × {loss['where']}: {loss['reason']}")
        (committed,) = committed_ms(watcher, 1)
        expected, whole = incident.quality["threads"], incident.quality["threads_captured"]
        listed = len(incident.threads)
        partly, counted = listed - whole, expected - listed
        adds_up = "yes" if whole + partly + counted == threads else f"no: {expected:,}"
        return name, threads, took, committed, whole, partly, counted, adds_up


def threads_of_one(bench):
    threads = THREADS_QUICK if bench.quick else THREADS
    room = f'[record]\nthreads = {threads + 2000}\nsyscalls = 16\nring_buffer = "64MiB"\n'
    notes = ["partly: its calls, or its registers and stack, not both"]
    few = f"[record]\nthreads = {threads // 3}\n"
    rows = [
        threads_row(bench, "no tool", threads, None, notes),
        threads_row(bench, "as shipped", threads, "", notes),
        threads_row(bench, "room for a third of them", threads, few, notes),
        threads_row(bench, "room for all", threads, room, notes),
    ]
    columns = (
        "", "threads", "ms from fault to waitpid", "ms to the bundle", "captured whole", "partly", "only counted",
        "adds up",
    )
    return Table(f"a process of {threads:,} threads crashes", columns, rows, notes)


# 200 rules, 100,000 bundles


def started(bench, rules):
    begin = monotonic()
    with bench.daemon(rules=rules):
        return (monotonic() - begin) * 1e3


def many_rules(bench):
    rules = "".join(
        f'[[rule]]\nname = "rule-{i}"\non = "signal"\nmatch = {{ exe = ["/opt/service-{i}/bin/*"] }}\n'
        for i in range(RULES)
    )
    variants = {"1 rule": lambda: started(bench, CRASH_RULE), f"{RULES} rules": lambda: started(bench, rules)}
    found = alternate(variants, bench.rounds)
    rows = [(name, sample.median, sample.spread, ratio(sample, found["1 rule"])) for name, sample in found.items()]
    notes = ["until it answers incidentctl status, asked each 20 ms"]
    return Table("start of the daemon", ("ms", "median", "quartiles", "× 1 rule"), rows, notes)


def timed(action):
    begin = monotonic()
    action()
    return (monotonic() - begin) * 1e3


@contextmanager
def daemon_of_many(bench):
    """One that keeps whatever is there."""
    config = '[budget]\nbundles = 1000000\nbytes = "64TiB"\n[storm]\nfull = 1\n[capture]\nanalyse = false\n'
    with bench.daemon(rules=CRASH_RULE, config=config) as watcher:
        yield watcher


def figures(bench, watcher):
    """Start; list; the first crash after it, and another."""
    watcher.stop()
    seen = watcher.log.stat().st_size
    start = timed(watcher.start)
    listed = Sample(timed(lambda: watcher.ctl.run("list")) for _ in range(3)).median
    for _ in range(2):
        watcher.incident(crash(bench)[0])
    return start, listed, *committed_ms(watcher, 2, seen)


def many_bundles(bench):
    count = BUNDLES_QUICK if bench.quick else BUNDLES
    with daemon_of_many(bench) as watcher:
        watcher.incident(crash(bench)[0])
        light = watcher.incident(crash(bench)[0])  # the second of its kind: fewer files, fewer links to make
        few = figures(bench, watcher)
        watcher.stop()
        multiply(light.path, count)
        many = figures(bench, watcher)
        kept = len(watcher.incidents())
    rows = [("a few", *few), (f"{count:,} bundles", *many), ("×", *(one / other for one, other in zip(many, few)))]
    columns = ("ms", "start", "list", "first crash committed", "second crash committed")
    return Table("a full incidents/", columns, rows, [f"{kept:,} bundles in the end, none removed"])


def run(bench):
    with machine_to_ourselves(), no_cores():
        return [crashes_at_once(bench), threads_of_one(bench), many_rules(bench), many_bundles(bench)]
