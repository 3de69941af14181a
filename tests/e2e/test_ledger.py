"""recorded + overwritten + lost = what truly happened, for every thread.

The victim makes each of its syscalls itself and counts them (tests/victims/ledger.c).
"""

from dataclasses import dataclass

import pytest

from lib.programs import victim
from lib.victims import run

RING = 128  # calls kept a thread by default


@dataclass
class Account:
    tid: int
    entered: int
    returned: int


def ledger(threads, calls, then):
    died = run(victim("ledger"), str(threads), str(calls), then)
    pid = int(died.lines[0].removeprefix("pid "))
    return pid, [Account(*map(int, line.split())) for line in died.lines[1:]]


def accounted(counts):
    return counts["recorded"] + counts["overwritten"] + counts["lost"]


@pytest.mark.parametrize(
    "threads, calls",
    [(8, 20), (8, 1000), (1, 100_000), pytest.param(150, 300, marks=pytest.mark.slow)],
)
def test_threads_at_rest(recorder, threads, calls):
    pid, accounts = ledger(threads, calls, "blocked")
    incident = recorder.incident(pid)
    assert incident.tids == {account.tid for account in accounts}
    for account in accounts:
        counts = incident.accounting(account.tid)
        assert accounted(counts) == account.entered, account
        assert counts["recorded"] == len(incident.calls(account.tid)) == min(account.entered, RING)
        assert counts["lost"] == 0


def test_threads_killed_amid_their_calls(recorder):
    pid, accounts = ledger(6, 500, "running")
    incident = recorder.incident(pid)
    for account in accounts:
        assert account.returned <= accounted(incident.accounting(account.tid)) <= account.entered, account


def test_the_sum_over_the_process(recorder):
    pid, accounts = ledger(10, 200, "blocked")
    assert accounted(recorder.incident(pid).quality) == sum(account.entered for account in accounts)


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
