"""The sums hold on a busy machine, with the smallest rings, short of memory, and across the daemon's ends."""

import os
import signal
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from lib.cgroup import inside, limited_memory
from lib.daemon import CRASH_RULE, SANITIZED
from lib.ledger import accounted, accounts_of, assert_each_call_is_accounted, ledger
from lib.programs import victim
from lib.victims import finish, run, running, start
from lib.wait import until

SMALLEST = '[record]\nthreads = 16\ncalls = "256KiB"\nprocesses = 64\nring_buffer = "64KiB"\n'
NARROW = "[record]\nthreads = 256\n[storm]\nfull = 1000\n[capture]\nanalyse = false\n"
CPU1 = Path("/sys/devices/system/cpu/cpu1/online")


def rule_about(name):
    return CRASH_RULE + f'match = {{ exe = ["{os.path.realpath(victim(name))}"] }}\n'


@contextmanager
def busy():
    with ExitStack() as stack:
        for _ in range(2 * os.cpu_count()):
            stack.enter_context(running("sh", "-c", "while :; do :; done"))
        yield


def test_a_busy_machine(recorder):
    with busy():
        pid, accounts = ledger(16, 62_500, "blocked")
    assert_each_call_is_accounted(recorder.incident(pid), accounts)


def test_the_smallest_rings(daemon):
    watcher = daemon(rules=rule_about("ledger"), config=SMALLEST)
    for _ in range(10):
        pid, accounts = ledger(10, 10_000, "blocked")
        incident = watcher.incident(pid)
        if not incident.quality["lost"]:
            break
        # Processes that began just then have rings until it is known that no rule is about them.
        assert [loss for loss in incident.quality["losses"] if loss["where"] == "system calls" and loss["reason"]]
    assert_each_call_is_accounted(incident, accounts, at_least=30)


def test_more_threads_than_rings(daemon):
    """Who has no ring is not recorded: the process's account says how many calls that were."""
    watcher = daemon(rules=rule_about("ledger"), config=SMALLEST)
    pid, accounts = ledger(40, 1000, "blocked")
    quality = watcher.incident(pid).quality
    assert accounted(quality) == sum(account.entered for account in accounts)
    assert quality["lost"] > 20 * 1000
    (loss,) = [loss for loss in quality["losses"] if loss["where"] == "system calls"]
    assert loss["count"] == quality["lost"] and loss["reason"]


def test_the_reader_stands_still(recorder):
    """Rings need no reader."""
    recorder.process.send_signal(signal.SIGSTOP)
    try:
        pid, accounts = ledger(4, 100_000, "blocked")
    finally:
        recorder.process.send_signal(signal.SIGCONT)
    assert_each_call_is_accounted(recorder.incident(pid), accounts)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer holds back the memory that is freed")
def test_the_daemon_is_short_of_memory(daemon, tmp_path):
    """Where its cgroup is full all the time, what it writes makes room by being written.

    What it may hold of incidents yet to be written (96 MiB) must have room: beyond that the kernel kills.
    """
    with limited_memory("incidentd-ledger", 1 << 30) as group:
        watcher = daemon(config=NARROW, prefix=inside(group))
        try:
            used = int((group / "memory.usage_in_bytes").read_text())
            (group / "memory.limit_in_bytes").write_text(str(used + (128 << 20)))
            run(*inside(group, "dd", "if=/dev/zero", f"of={tmp_path / 'filling'}", "bs=1M", "count=256"))
            pids = {int(line) for line in run(victim("storm"), "60").lines}
            pid, accounts = ledger(4, 10_000, "blocked")
            incident = watcher.incident(pid)
            status = until(lambda: all_told(watcher, len(pids) + 1), "every death to be told", watcher.tail)
            refused = int((group / "memory.failcnt").read_text())
        finally:
            watcher.stop()
    assert_each_call_is_accounted(incident, accounts)
    assert refused > 0, "the limit was met"
    assert status["incidents"]["committed"] + status["incidents"]["failed"] == len(pids) + 1
    assert {incident.process["pid"] for incident in watcher.incidents()} <= pids | {pid}


def all_told(watcher, deaths):
    status = watcher.ctl.json("status")
    return status if status["rules"][0]["matched"] == deaths and status["incidents"]["pending"] == 0 else None


@contextmanager
def one_cpu_less():
    try:
        CPU1.write_text("0")
    except OSError as refused:
        pytest.skip(f"no CPU can be taken away: {refused}")
    try:
        yield
    finally:
        CPU1.write_text("1")


def test_a_cpu_goes_and_comes_back(recorder):
    process = start(victim("ledger"), "4", "500000", "blocked")
    with one_cpu_less():
        pass
    pid, accounts = accounts_of(finish(process))
    assert_each_call_is_accounted(recorder.incident(pid), accounts)


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_in_the_middle(daemon, end):
    """From when to when nothing was recorded is stated, and the sums after it hold."""
    watcher = daemon()
    process = start(victim("ledger"), "2", "500", "waiting", stdin=-1)
    assert process.stdout.readline() == b"waiting\n"
    getattr(watcher, end)()
    watcher.start()
    status = watcher.ctl.json("status")
    assert status["gap"]["stopped"] is (end == "stop")
    pid, accounts = accounts_of(finish(process, b"\n"))
    incident = watcher.incident(pid)
    gap = incident.quality["gap"]
    assert gap["stopped"] is (end == "stop")
    assert seconds(gap["from"]) <= seconds(gap["until"]) <= seconds(incident.record["time"])
    assert any("nothing was recorded" in reason for reason in incident.quality["incomplete_because"])
    counts = incident.accounting(accounts[0].tid)
    assert accounted(counts) == 1 + 500, "the read that returned, and what it did since"
    assert counts["since_birth"] is False
    born = ledger(1, 10, "blocked")[0]
    assert watcher.incident(born).quality["gap"] is None, "it is younger than the gap"
