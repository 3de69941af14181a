"""Rules about threads that are off the CPU for long, and who wakes them."""

import pytest

from lib.programs import victim
from lib.victims import run, running


def rule(more, match='match = { comm = ["trouble"] }'):
    return f'[[rule]]\nname = "blocked"\non = "blocked"\n{more}\n{match}\nlimit = {{ cooldown = "1h", by = "process" }}\n'


def test_a_wait_and_its_waker(daemon):
    watcher = daemon(rules=rule('threshold = "100ms"'))
    ended = run(victim("trouble"), "pipe", "400")
    tids = dict(line.split() for line in ended.lines)
    incident = watcher.incident(ended.pid)
    blocked = incident.record["blocked"]
    assert blocked["syscall"] == "read"
    assert blocked["elapsed_ns"] >= 100_000_000
    assert not blocked["in_flight"]
    assert blocked["waker"]["tid"] == int(tids["writer"])
    assert not blocked["waker"]["in_interrupt"]
    symbols = " ".join(frame["symbol"] or "" for frame in blocked["kernel_stack"])
    assert "pipe_read" in symbols
    waker = " ".join(frame["symbol"] or "" for frame in blocked["waker"]["kernel_stack"])
    assert "pipe_write" in waker
    assert incident.record["thread"]["tid"] == int(tids["reader"])
    assert incident.thread(ended.pid)["stack"]["bytes"] >= 4096


def test_idle_waits_are_left_out(daemon):
    """Sleeping is a way of having nothing to do, unless the rule says otherwise."""
    watcher = daemon(rules=rule('threshold = "50ms"', 'match = { comm = ["sleep", "trouble"] }'))
    run("sleep", "0.3")
    ended = run(victim("trouble"), "nap", "200")
    incident = watcher.incident(ended.pid)
    assert incident.record["blocked"]["syscall"] == "fcntl"
    assert len(watcher.incidents()) == 1


def test_idle_waits_when_asked_for(daemon):
    watcher = daemon(rules=rule('threshold = "50ms"\nidle = true', 'match = { comm = ["sleep"] }'))
    ended = run("sleep", "0.3")
    assert watcher.incident(ended.pid).record["blocked"]["syscall"] == "clock_nanosleep"


@pytest.mark.parametrize("threshold", [100])
def test_while_it_still_lasts(daemon, threshold):
    watcher = daemon(rules=rule(f'threshold = "{threshold}ms"\nwhen = "deadline"'))
    with running(victim("trouble"), "pipe", "60000") as process:
        incident = watcher.incident(process.pid)
        blocked = incident.record["blocked"]
        assert blocked["in_flight"]
        assert blocked["syscall"] == "read"
        thread = incident.thread(process.pid)
        assert any("pipe_read" in (frame["symbol"] or "") for frame in thread["kernel_stack"])
        assert thread["stack"]["bytes"] >= 4096
        assert process.poll() is None
    assert len(watcher.incidents()) == 1
