"""recorded + overwritten + lost = what truly happened, for every thread.

The victim makes each of its syscalls itself and counts them (tests/victims/ledger.c).
"""

import pytest

from lib.ledger import accounted, assert_each_call_is_accounted, ledger
from lib.programs import victim
from lib.victims import running


@pytest.mark.parametrize(
    "threads, calls",
    [
        (8, 20),
        (8, 1000),
        (1, 1_000_000),
        (2, 500_000),
        (16, 62_500),
        pytest.param(150, 300, marks=pytest.mark.slow),
    ],
)
def test_threads_at_rest(recorder, threads, calls):
    pid, accounts = ledger(threads, calls, "blocked")
    assert sum(account.entered for account in accounts) > threads * calls
    assert_each_call_is_accounted(recorder.incident(pid), accounts)


def test_threads_killed_amid_their_calls(recorder):
    pid, accounts = ledger(6, 500, "running")
    incident = recorder.incident(pid)
    for account in accounts:
        assert account.returned <= accounted(incident.accounting(account.tid)) <= account.entered, account


def test_the_sum_over_the_process(recorder):
    pid, accounts = ledger(10, 200, "blocked")
    assert accounted(recorder.incident(pid).quality) == sum(account.entered for account in accounts)


def test_threads_that_have_ended(recorder):
    """Others have their rings now: what they did is in the process's account."""
    pid, (first, *others) = ledger(20, 200, "ended")
    incident = recorder.incident(pid)
    assert incident.tids == {first.tid}
    assert accounted(incident.accounting(first.tid)) == first.entered
    assert incident.quality["ended"] == {"threads": 20, "calls": sum(one.entered for one in others)}
    assert accounted(incident.quality) == first.entered + sum(one.entered for one in others)


def test_kernel_stacks_change_hands(daemon):
    """Threads are known by their kernel stacks: each was another's before, recorded or of no interest."""
    rule = '[[rule]]\nname = "ledger"\non = "signal"\nmatch = { exe = ["%s"] }\n' % victim("ledger")
    watcher = daemon(rules=rule)
    with running("sh", "-c", "while :; do /bin/true & /bin/true; done"):
        for _ in range(10):
            pid, (first, *others) = ledger(200, 5, "ended")
            quality = watcher.incident(pid).quality
            assert accounted(quality) - quality["ended"]["calls"] == first.entered
            assert quality["ended"] == {"threads": 200, "calls": sum(one.entered for one in others)}


def test_what_was_recorded(recorder):
    pid, accounts = ledger(2, 10, "blocked")
    incident = recorder.incident(pid)
    first, *others = accounts
    names = [call["name"] for call in incident.calls(first.tid)]
    assert names[:3] == ["getpid", "clone", "clone"]
    assert set(names[3:]) == {"futex"}
    for index, account in enumerate(others, start=1):
        calls = incident.calls(account.tid)
        assert [call["name"] for call in calls] == ["getppid"] * (10 + index) + ["futex"]
        assert {call["ret"] for call in calls[:-1]} == {incident.process["ppid"]}
