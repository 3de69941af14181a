"""What did not fit is counted and named, and the incident still commits."""

import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from lib.programs import victim
from lib.victims import run, running
from lib.wait import until

SMALL_RING_BUFFER = '[record]\nring_buffer = "64KiB"\n'


def many_threads():
    """A hundred threads' stacks are far more than 64 KiB."""
    died = run(victim("siblings"), "90", "8", "1", "fault")
    return died, {int(line.split()[0]) for line in died.lines}


def test_a_small_ring_buffer(daemon):
    small = daemon(config=SMALL_RING_BUFFER)
    died, tids = many_threads()
    incident = small.incident(died.pid)
    quality = incident.quality
    assert quality["threads"] == len(tids)
    assert quality["complete"] is False
    assert incident.tids <= tids
    assert sum(loss["count"] for loss in quality["losses"]) > 0
    assert all(loss["where"] and loss["reason"] for loss in quality["losses"])
    missing = {thread["tid"] for thread in quality["missing"]}
    assert missing <= tids
    assert len(tids) - len(missing) == quality["threads_captured"]
    assert all(thread["reason"] for thread in quality["missing"])


def test_the_crashed_thread_is_there_all_the_same(daemon):
    small = daemon(config=SMALL_RING_BUFFER)
    died, _ = many_threads()
    crashed = small.incident(died.pid).crashed
    assert crashed["tid"] == died.pid
    assert int(crashed["registers"]["rip"], 16) != 0


def test_few_slots(daemon):
    """More threads than slots: those without one are unrecorded, counted and named."""
    few = daemon(config="[record]\nthreads = 16\n", rules=victims_rule())
    died, tids = many_threads()
    incident = few.incident(died.pid)
    assert incident.quality["complete"] is False
    recorded = {thread["tid"] for thread in incident.threads if thread["accounting"]}
    missing = {thread["tid"] for thread in incident.quality["missing"]}
    assert len(recorded) <= 16
    assert recorded | missing == tids
    assert incident.quality["lost"] > 0
    assert any(loss["where"] == "threads" for loss in incident.quality["losses"])


def test_who_dies_has_an_entry_however_many_live(daemon):
    few = daemon(config="[record]\nprocesses = 64\n")
    with ExitStack() as living:
        for _ in range(120):
            living.enter_context(running("sleep", "1000"))
        died = run(victim("die"), "null-read")
        incident = few.incident(died.pid)
    assert incident.crashed["stack"]["bytes"] > 0
    losses = {loss["where"]: loss["count"] for loss in few.ctl.json("status")["losses"]}
    assert losses["processes: no entry for a process ([record] processes)"] > 0
    assert "processes: deaths of those without an entry" not in losses


def victims_rule():
    return f"""
[[rule]]
name    = "crash"
on      = "signal"
signals = ["SIGSEGV"]
match   = {{ exe = ["{victim('')}*"] }}
"""


def test_who_has_given_up_root_is_known_though_the_death_event_was_lost(daemon):
    """As a worker that a server has forked: its core is of that user, and would not be joined with root's death."""
    dies = """if True:
        import os, signal
        os.setuid(65534)
        for _ in range(100):  # what that user may take of the ring buffer
            if os.fork() == 0:
                signal.raise_signal(signal.SIGSEGV)
            os.wait()
        signal.raise_signal(signal.SIGSEGV)
    """
    small = daemon(config=SMALL_RING_BUFFER + "[storm]\nfull = 1000\n")  # whichever of them is found first
    small.process.send_signal(signal.SIGSTOP)
    for _ in range(8):
        many_threads()  # what root may take of it
    died = run(sys.executable, "-c", dies)
    small.process.send_signal(signal.SIGCONT)
    incident = small.incident(died.pid)
    assert "made from the process table" in small.log.read_text()
    assert incident.process["uid"] == 65534


@pytest.mark.slow
def test_a_storm_through_a_small_ring_buffer(daemon):
    """Every death is accounted for: an incident, or a loss that status shows."""
    small = daemon(config=SMALL_RING_BUFFER)
    pids = {int(line) for line in run(victim("storm"), "40").lines}
    later = run(victim("die"), "null-read")
    small.incident(later.pid)
    died = {i.process["pid"] for i in small.incidents()} & pids
    losses = small.ctl.json("status")["losses"]
    assert len(died) + sum(loss["count"] for loss in losses) >= len(pids)


def test_an_incident_that_found_no_room_is_a_loss(daemon):
    watcher = daemon(started=False, config='[budget]\nkeep_free = "0B"\n')
    watcher.state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k,mode=0700", "none", watcher.state], check=True)
    try:
        watcher.start()
        run(victim("die"), "null-read")
        until(lambda: watcher.ctl.json("status")["incidents"]["failed"], "the incident to have failed", watcher.tail)
        (loss,) = [loss for loss in watcher.ctl.json("status")["losses"] if loss["where"] == "incidents"]
        assert loss["count"] == 1 and "No space left on device" in loss["reason"]
        assert "No space left on device" in watcher.ctl.text("status")
        watcher.stop()
    finally:
        subprocess.run(["umount", "--lazy", watcher.state], check=True)
