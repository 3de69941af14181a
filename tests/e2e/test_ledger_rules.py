"""Every match of a rule, and every firing, is in exactly one account: `incidentctl status` shows them."""

import os
import signal
import subprocess

import pytest

from lib.daemon import CRASH_RULE
from lib.heap_victim import Code
from lib.programs import victim
from lib.victims import finish, run, start
from lib.wait import until

SMALL = '[record]\nring_buffer = "64KiB"\n'
BEYOND_THE_RING_BUFFER = "ring buffer: a rule's trigger"
# Where others had used up the questions of a second, and the process had ended before the daemon went on.
UNKNOWN = "triggers of processes that were not known"


def loops(tmp_path):
    """A path that fails as nobody else's does."""
    link = tmp_path / "loop"
    link.symlink_to(link)
    return str(link)


def failing_open(more=""):
    return (
        '[[rule]]\nname = "counted"\non = "syscall"\nsyscall = ["openat"]\nerrno = ["ELOOP"]\n'
        f'match = {{ comm = ["trouble"] }}\n{more}\n'
    )


def slow_call(more=""):
    return (
        f'[[rule]]\nname = "counted"\non = "latency"\nprobe = "uprobe:{victim("slow")}:probed_sleep"\n'
        f'threshold = "500us"\nmatch = {{ exe = ["{os.path.realpath(victim("slow"))}"] }}\n{more}\n'
    )


ONCE = 'limit = { cooldown = "1h", by = "rule" }'


def settled(watcher, truth):
    """Status, once every match or its loss is told, and no incident is under way."""

    def told():
        status = watcher.ctl.json("status")
        (rule,) = status["rules"]
        return status["incidents"]["pending"] == 0 and rule["matched"] + lost(status) >= truth and status

    return until(told, f"{truth} matches and losses", lambda: str(watcher.ctl.json("status")["rules"]) + watcher.tail())


def lost(status):
    return sum(loss["count"] for loss in status["losses"] if loss["where"] in (BEYOND_THE_RING_BUFFER, UNKNOWN))


def assert_firings_are_accounted(status):
    incidents = status["incidents"]
    outcomes = ("committed", "failed", "counted", "joined")
    assert sum(rule["fired"] for rule in status["rules"]) == sum(incidents[outcome] for outcome in outcomes), incidents


@pytest.fixture
def stopped():
    """stopped(daemon): it reads nothing until the block ends."""
    halted = []

    def stop(watcher):
        watcher.process.send_signal(signal.SIGSTOP)
        halted.append(watcher.process)
        until(lambda: state_of(watcher.process.pid) == "T", "the daemon to stand still")

    yield stop
    for process in halted:
        process.send_signal(signal.SIGCONT)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("times", [1, 100, 20_000])
def test_a_rule_about_calls(daemon, tmp_path, times):
    watcher = daemon(rules=failing_open(ONCE))
    run(victim("trouble"), "open", loops(tmp_path), str(times))
    status = settled(watcher, times)
    (rule,) = status["rules"]
    assert rule["matched"] + lost(status) == times
    assert rule["fired"] + rule["suppressed"] == rule["matched"]
    assert rule["fired"] == 1
    assert_firings_are_accounted(status)


def test_a_rule_about_calls_without_a_limit(daemon, tmp_path):
    """Each match fires; what makes no bundle is counted or told of by another one."""
    watcher = daemon(rules=failing_open(), config='[storm]\nfull = 3\nlight = 2\nwindow = "1h"\n')
    run(victim("trouble"), "open", loops(tmp_path), "500")
    status = settled(watcher, 500)
    (rule,) = status["rules"]
    assert rule["fired"] == rule["matched"] == 500 - lost(status)
    assert_firings_are_accounted(status)


def test_a_rule_about_signals_that_are_handled(daemon):
    watcher = daemon(
        rules='[[rule]]\nname = "counted"\non = "signal"\nsignals = ["SIGSEGV"]\nfatal = false\n'
        f'match = {{ exe = ["{os.path.realpath(victim("handled"))}"] }}\n',
        config='[storm]\nfull = 3\nlight = 2\nwindow = "1h"\n',
    )
    run(victim("handled"), "segv", "50")
    status = settled(watcher, 50)
    (rule,) = status["rules"]
    assert rule["fired"] == rule["matched"] == 50
    assert_firings_are_accounted(status)


def test_the_reader_stands_still(daemon, tmp_path, stopped):
    watcher = daemon(rules=failing_open(ONCE), config=SMALL)
    stopped(watcher)
    run(victim("trouble"), "open", loops(tmp_path), "3000")
    watcher.process.send_signal(signal.SIGCONT)
    status = settled(watcher, 3000)
    (rule,) = status["rules"]
    assert rule["matched"] + lost(status) == 3000
    assert rule["matched"] > 0 and lost(status) > 0
    assert rule["fired"] + rule["suppressed"] == rule["matched"]
    assert_firings_are_accounted(status)


def is_probed(pid):
    code = Code(pid).bytes_at(os.path.realpath(victim("slow")), "probed_sleep", False)
    return code and code[0] != code[1]


@pytest.mark.parametrize("still", [False, True])
def test_a_rule_about_latency(daemon, stopped, still):
    watcher = daemon(rules=slow_call(ONCE), config=SMALL)
    slow = start(victim("slow"), "sleep", "800", "1", stdin=subprocess.PIPE)
    until(lambda: is_probed(slow.pid), "the probe of the call", watcher.tail)
    watcher.ctl.json("status")  # it answers when it has put those of the return, too
    if still:
        stopped(watcher)
    finish(slow, b"\n\n")
    watcher.process.send_signal(signal.SIGCONT)
    status = settled(watcher, 800)
    (rule,) = status["rules"]
    assert rule["matched"] + lost(status) == 800
    assert not still or lost(status) > 0
    assert rule["fired"] + rule["suppressed"] == rule["matched"]
    assert_firings_are_accounted(status)


@pytest.mark.slow
@pytest.mark.parametrize("still", [False, True])
def test_crashes(daemon, stopped, still):
    """More at once than the ring buffer holds: each is an incident all the same, whole, light or counted."""
    watcher = daemon(rules=CRASH_RULE, config=SMALL + '[storm]\nfull = 5\nlight = 10\nwindow = "1h"\n')
    if still:
        stopped(watcher)
    pids = {int(line) for line in run(victim("storm"), "100").lines}
    watcher.process.send_signal(signal.SIGCONT)
    status = settled(watcher, len(pids))
    (rule,) = status["rules"]
    assert rule["matched"] == rule["fired"] == len(pids), status["losses"]
    assert_firings_are_accounted(status)
    died = {incident.process["pid"] for incident in watcher.incidents()}
    assert died <= pids and len(died) == status["incidents"]["committed"]
    signatures = status["signatures"]
    assert sum(one["seen"] for one in signatures) == len(pids)
    assert sum(one["full"] + one["light"] + one["counted"] for one in signatures) == len(pids)
    assert not still or any(loss["where"] == "ring buffer: death event" for loss in status["losses"])
