"""A long time of everything at once: what incidentd takes it gives back, and every crash is accounted for.

`pytest --soak MINUTES tests/e2e/test_soak.py`; tests/run gives it some minutes as a suite of its own.
"""

import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lib.cgroup import inside, limited_memory
from lib.daemon import SANITIZED
from lib.programs import victim
from lib.victims import run, running, start
from lib.wait import until
from test_rule_latency import run_slow
from test_reload_memory import MEBIBYTE, of_daemon, reload, resident

BUNDLES = 60
CONFIG = f"""
[budget]
bundles = {BUNDLES}
keep_free = "1MiB"
at_least = 10
modules = "16MiB"
[storm]
full = 3
light = 3
window = "10s"
[heap]
memory = "128MiB"
[safety]
allow_dump = true
"""
RELOADS_OF_TWO_HOURS = 1000  # at least, and of a shorter time as many for each minute
# What the daemon remembers up to a number grows until then: 256 generations of rules (daemon/plan/rule_history.h), which
# is 128 rounds, and 8192 processes (daemon/facts/facts_cache.h), which grow on for some MiB.
FILLED = 160  # rounds
PLACE = "@PLACE@"  # of copies that are this test's alone


def rule(name, kind, *lines, whom="trouble"):
    keys = "\n".join(lines)
    whom = f'match = {{ exe = ["{PLACE}/{whom}"] }}\n' if whom else ""
    return f'[[rule]]\nname = "{name}"\non = "{kind}"\n{keys}\n{whom}limit = {{ cooldown = "0s", per_hour = 10000 }}\n'


CRASH = rule("crash", "signal", whom="dying/*")
HEAP = 'context = { allocations = "history" }'
SETS = (
    CRASH,
    CRASH
    + rule("status", "exit", "status = [7]")
    + rule("failing", "syscall", 'syscall = ["openat"]', 'errno = ["ENOENT"]', "count = 5", 'window = "10s"')
    + rule("renamed", "tracepoint", 'tracepoint = "task:task_rename"')
    + rule("both", "all", 'condition = [ { on = "syscall", syscall = ["openat"], errno = ["ENOENT"] }, '
           '{ on = "exit", status = 1 } ]', 'within = "1m"'),
    CRASH
    + rule("slow", "latency", f'probe = "uprobe:{PLACE}/slow:probed_sleep"', 'threshold = "20ms"', whom="slow")
    + rule("growing", "memory", 'rss_above = "48MiB"')
    + rule("blocked", "blocked", 'threshold = "100ms"', "idle = true")
    + rule("stuck", "blocked", 'threshold = "150ms"', 'when = "deadline"', "idle = true",
           'dump = { signal = "SIGABRT", dry_run = true }')
    + rule("either", "any", 'condition = [ { on = "syscall", syscall = ["openat"], errno = ["ENOENT"] }, '
           '{ on = "exit", status = 7 } ]')
    + rule("sync", "txg_sync", 'threshold = "30s"', whom=""),
    rule("crash", "signal", HEAP, whom="dying/*")
    + rule("told", "signal", "fatal = false", 'signals = ["SIGUSR1"]', whom="handled")
    + rule("killed", "oom", whom="")
    + rule("storm", "reclaim", "count = 1000000", 'window = "1s"', whom="")
    + rule("disk", "block_io", "error = true", whom=""),
)
KINDS = ("null-read", "null-write", "null-jump", "read-only", "bus", "fpe", "ill", "sys", "abort", "stack-overflow", "not-dumpable")


@pytest.fixture
def minutes(request):
    given = request.config.getoption("--soak")
    if given is None:
        pytest.skip("--soak MINUTES was not given")
    return given


class Neighbours:
    """An unprivileged user's programs that load the machine, and no rule is about."""

    LOOPS = (
        [victim("handled"), "segv", "2000000000"],
        ["sh", "-c", "while :; do /bin/true; done"],
        ["sh", "-c", "while :; do (exec true) & wait; done"],
        ["python3", "-c", "import ctypes\nc = ctypes.CDLL(None)\nwhile True: c.prctl(15, b'another', 0, 0, 0)"],
        ["python3", "-c", "import threading, time\n"
         "for _ in range(500): threading.Thread(target=time.sleep, args=(1e9,), daemon=True).start()\ntime.sleep(1e9)"],
    )

    def __init__(self, turn):
        self.loop = self.LOOPS[turn % len(self.LOOPS)]

    def __enter__(self):
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        self.process = start(*nobody, *self.loop, stdout=subprocess.DEVNULL, start_new_session=True)
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Readers:
    """incidentctl, all the time.  What it was asked for may have been removed by then; it may not fail otherwise."""

    def __init__(self, watcher):
        self.watcher, self.ended, self.wrong = watcher, threading.Event(), []

    def read(self):
        verbs = itertools.cycle((["list"], ["info"], ["timeline", "-n", "20"], ["threads"], ["verify"]))
        while not self.ended.is_set():
            names = sorted(path.name for path in (self.watcher.state / "incidents").glob("2*"))
            verb = next(verbs)
            name = random.choice(names) if names else None
            if name is None or verb == ["list"]:
                done, name = self.watcher.ctl.run("list"), None
            else:
                done = self.watcher.ctl.run(verb[0], name, *verb[1:])
            there = name is None or (self.watcher.state / "incidents" / name).exists()
            if done.returncode not in (0, 1) or (done.returncode and there):
                self.wrong.append((verb, name, done.returncode, done.stderr[-500:]))

    def __enter__(self):
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def of_bpf(pid):
    """How many of the kernel's objects it holds."""
    found = dict.fromkeys(("links", "programs", "maps"), 0)
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = entry.read_text()
        except OSError:  # closed since it was listed
            continue
        for name, mark in (("links", "link_type:"), ("programs", "prog_id:"), ("maps", "map_id:")):
            found[name] += mark in text and (name == "links" or "link_type:" not in text)
    return found


def held(watcher):
    """By the daemon, and by the processes that do a part of its work, where no heap is recorded any more."""
    until(lambda: not watcher.ctl.json("status")["heaps"]["processes"], "the heaps of the dead to be let go", watcher.tail)
    helpers = watcher.processes()
    others = {name: resident(Path(f"/proc/{pid}")) for name, pid in helpers.items()}
    descriptors = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in helpers.values())
    return of_daemon(watcher) | of_bpf(watcher.process.pid) | {"others": others, "others' descriptors": descriptors}


def bytes_below(directory):
    """On the disk: copies of mapped files are as long as these, and mostly holes."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*") if path.is_file() or path.is_symlink())


def settled(watcher):
    def now():
        status = watcher.ctl.json("status")
        said, analyses = status["incidents"], status["analyses"]
        return status if not said["pending"] and not analyses["pending"] else None

    return until(now, "all incidents to be written and explained", watcher.tail)


@pytest.fixture
def programs(tmp_path):
    """Copies of the victims; those below dying/ are who the crash rule is about."""
    place = tmp_path / "programs"
    (place / "dying").mkdir(parents=True)
    for name in ("trouble", "slow", "handled", "dying/die", "dying/storm"):
        shutil.copy(victim(os.path.basename(name)), place / name)
    return place


def crash(programs):
    """Several processes that die; how many."""
    for kind in random.sample(KINDS, 3):
        assert run(programs / "dying/die", kind).status < 0
    return 3 + len(run(programs / "dying/storm", "8").lines)


def trouble(programs):
    """What the rules that are no crash rules are about."""
    run(programs / "trouble", "exit", "7")
    run(programs / "trouble", "open", "/nonexistent", "6")
    run(programs / "trouble", "rename", "renamed")
    run_slow("sleep", "2", "50", binary=programs / "slow")
    with limited_memory("incidentd-test-soak", 48 << 20) as group:
        assert run(*inside(group, programs / "trouble", "threads", "2", "200")).status == -signal.SIGKILL
    with running(programs / "trouble", "grow", "64", "0", stdin=-1), running(programs / "trouble", "pipe", "200"):
        run(programs / "handled", "ignore", "SIGUSR1")
        run(programs / "handled", "once", "SIGUSR1")
        time.sleep(0.5)  # something is to happen meanwhile; nothing is asserted of how much


def fired(status):
    return sum(one["fired"] for one in status["rules"])


def accounted(status):
    said = status["incidents"]
    # Rules that fire on one process within a moment share an incident.
    return said["committed"] + said["counted"] + said["failed"] + said["joined"]


def crash_rule(status):
    (found,) = [one for one in status["rules"] if one["name"] == "crash"]
    return found


def a_round(watcher, programs, number):
    """Two reloads: to the rules of another round for a moment, and to its own."""
    for which in (number + 2, number):
        reload(watcher, SETS[which % len(SETS)].replace(PLACE, str(programs)))
    before = settled(watcher)
    with Neighbours(number):
        died = crash(programs)
        trouble(programs)

        def told():
            now = settled(watcher)
            return now if crash_rule(now)["matched"] - crash_rule(before)["matched"] >= died else None

        after = until(told, f"{died} crashes to be told", watcher.tail)
    after = settled(watcher)
    matched = crash_rule(after)["matched"] - crash_rule(before)["matched"]
    assert matched == died
    assert fired(after) - fired(before) == accounted(after) - accounted(before), (before, after)
    assert after["incidents"]["failed"] == 0, watcher.tail()
    return died


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_long_time_of_everything(daemon, minutes, programs):
    seed = int(os.environ.get("INCIDENTD_SOAK_SEED") or random.randrange(1 << 32))
    random.seed(seed)
    print(f"\nINCIDENTD_SOAK_SEED={seed}")
    watcher = daemon(rules=CRASH.replace(PLACE, str(programs)), config=CONFIG)
    begin = time.monotonic()
    crashes = rounds = starts = 0
    early = None  # of this life of the daemon, after it has loaded everything twice, and again when it is FILLED
    lives = []
    with Readers(watcher) as readers:
        while (passed := time.monotonic() - begin) < minutes * 60 or 2 * rounds < minutes * RELOADS_OF_TWO_HOURS / 120:
            crashes += a_round(watcher, programs, rounds)
            rounds += 1
            in_this_life = rounds - (lives[-1] if lives else 0)
            if in_this_life in (2 * len(SETS), FILLED):
                early = held(watcher)
                print(f"after {in_this_life} rounds of a life: {early}", flush=True)
            # The second half is one life, long enough to see what grows.
            if passed < minutes * 30 and in_this_life == 3 * len(SETS):
                if starts % 2:
                    watcher.kill()
                else:
                    watcher.stop()
                watcher.start()
                starts += 1
                lives.append(rounds)
                early = None
        assert not readers.wrong, readers.wrong[:3]
    while rounds % len(SETS):
        crashes += a_round(watcher, programs, rounds)
        rounds += 1
    assert early, f"{rounds} rounds are too few for their end to be compared with their beginning"
    # A heap that has been let go is freed by a thread of its own.
    until(lambda: of_bpf(watcher.process.pid)["maps"] <= early["maps"], "its maps to be as many as before", watcher.tail)
    late = held(watcher)
    said = f"{rounds} rounds, {2 * rounds} reloads, {crashes} crashes, {starts} restarts: {early} at first, {late} at the end"
    print(said)
    if not SANITIZED:
        assert late["RSS"] - early["RSS"] < 16 * MEBIBYTE, said
    assert late["descriptors"] - early["descriptors"] <= 16, said
    assert late["mappings"] - early["mappings"] <= 64, said
    assert late["links"] - early["links"] <= 2, said
    assert late["programs"] == early["programs"], said
    assert late["maps"] <= early["maps"], said
    assert late["others"].keys() == early["others"].keys(), said
    if not SANITIZED:
        assert all(late["others"][name] - early["others"][name] < 8 * MEBIBYTE for name in late["others"]), said
    assert late["others' descriptors"] - early["others' descriptors"] <= 8, said
    kept = [path for path in (watcher.state / "incidents").iterdir() if re.match(r"\d", path.name)]
    assert len(kept) <= BUNDLES
    assert not [path.name for path in (watcher.state / "incidents").glob(".2*")], "a bundle was left unfinished"
    assert watcher.ctl.run("verify").returncode == 0 or all(watcher.ctl.run("verify", path.name).returncode == 0 for path in kept)
    rest = bytes_below(watcher.state) - sum(bytes_below(path) for path in kept)
    assert rest < 32 << 20, f"{rest} bytes beside the incidents"
