"""How far back the calls of a thread are known, and who gives way to whom where the memory for them is small."""

import os
import signal

import pytest

from lib.compiled import compiled
from lib.ledger import accounted, ledger
from lib.victims import run, start
from lib.wait import until

SMALL = '[record]\nthreads = 64\ncalls = "1MiB"\n'
TOLD = '[[rule]]\nname = "told"\non = "signal"\nsignals = ["SIGUSR1"]\nfatal = false\n'
A_BUNDLE = 20_000  # of the thread that it is about
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")


@pytest.fixture(scope="module")
def paces():
    return compiled("paces.c", "-O1")


def test_a_thread_has_more_of_the_memory_as_it_makes_calls(recorder):
    pid, (first, caller) = ledger(1, 40_000, "blocked")
    incident = recorder.incident(pid)
    counts = incident.accounting(caller.tid)
    assert (counts["overwritten"], counts["lost"]) == (0, 0)
    assert counts["recorded"] == 30_000, "of a thread beside the crashed one"
    assert counts["left_out"] == caller.entered - 30_000
    assert counts["past_ns"] == incident.record["clocks"]["trigger_ns"] - counts["kept_from_ns"]
    assert incident.accounting(first.tid)["recorded"] == first.entered


def test_the_crashed_thread_has_its_newest(recorder, paces):
    died = run(paces, "30000", "0")
    incident = recorder.incident(died.pid)
    counts = incident.accounting(died.pid)
    assert counts["recorded"] == A_BUNDLE
    assert counts["left_out"] > 10_000 and counts["overwritten"] == 0
    assert {call["name"] for call in incident.calls(died.pid)[-A_BUNDLE:]} == {"getppid"}
    assert f"{counts['left_out']} left out, " in recorder.ctl.text("info", incident.id)


@pytest.mark.parametrize("whose", ["another user's", "the same user's"])
def test_a_busy_neighbour_leaves_others_their_past(daemon, paces, whose):
    """It has filled all there is; who begins later gets a part of it within some seconds."""
    watcher = daemon(config=SMALL)
    hog = start(*(AS_NOBODY if whose == "another user's" else ()), paces, "1000000000000", "0")
    try:
        until(lambda: full(watcher), "the memory for calls to be in use", watcher.tail)
        died = run(paces, "8000", "2000")
    finally:
        hog.kill()
        hog.wait()
    counts = watcher.incident(died.pid).accounting(died.pid)
    assert counts["lost"] == 0
    assert counts["recorded"] > 1500, "of 32,000 that fit it had a part"


def full(watcher):
    use = watcher.ctl.json("status")["recorder"]
    return use["calls_bytes_used"] > use["calls_bytes"] * 3 // 4


def test_calls_of_threads_that_ended_make_room(daemon):
    """The memory is used many times over, by threads one after the other."""
    watcher = daemon(config=SMALL)
    for _ in range(3):
        pid, accounts = ledger(20, 5_000, "blocked")
        incident = watcher.incident(pid)
        for account in accounts:
            counts = incident.accounting(account.tid)
            assert accounted(counts) == account.entered
            assert counts["lost"] == 0
            assert counts["recorded"] >= min(account.entered, 30), "of two segments one at least"


def test_a_light_incident_has_the_last_calls_from_before_its_trigger(daemon, paces):
    watcher = daemon(rules=TOLD + 'limit = { cooldown = "0s", per_hour = 100 }\n', config="[storm]\nfull = 1\nlight = 20\n")
    busy = start(paces, "told")
    try:
        watcher.incident(busy.pid)

        def light_ones():
            os.kill(busy.pid, signal.SIGUSR1)
            return [incident for incident in watcher.incidents() if incident.record["alike"]["light"]]

        light = until(light_ones, "a light one", watcher.tail, every=0.3)[0]
    finally:
        busy.kill()
        busy.wait()
    counts = light.accounting(busy.pid)
    assert counts["recorded"] - counts["after"] == 128
    assert counts["left_out"] > 1000


def test_what_comes_after_the_trigger_takes_nothing_of_the_past(daemon, paces):
    """A process that lives on makes calls while it is looked at."""
    watcher = daemon(rules=TOLD)
    busy = start(paces, "told")
    try:
        incident = watcher.incident(busy.pid)
    finally:
        busy.kill()
        busy.wait()
    counts = incident.accounting(busy.pid)
    trigger = incident.record["clocks"]["trigger_ns"]
    calls = incident.calls(busy.pid)
    assert [call["t_ns"] > trigger for call in calls].count(True) == counts["after"] <= 1001
    assert counts["recorded"] - counts["after"] >= 10_000
    shown = watcher.ctl.text("timeline", incident.id)
    if counts["after"]:
        assert "calls that began after the trigger: --after shows them" in shown
        assert len(watcher.ctl.text("timeline", incident.id, "--after").splitlines()) > len(shown.splitlines())
