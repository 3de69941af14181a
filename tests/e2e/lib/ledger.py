"""The victim that counts for itself what it does, and the sums a bundle has to hold against it."""

from dataclasses import dataclass

from lib.programs import victim
from lib.victims import run


@dataclass
class Account:
    """What a thread truly did (tests/victims/ledger.c)."""

    tid: int
    entered: int
    returned: int
    events: int
    cut: int
    unreadable: int


def accounts_of(died):
    """(pid, accounts), the first thread's first.  What else it said comes before."""
    lines = died.lines[next(i for i, line in enumerate(died.lines) if line.startswith("pid ")) :]
    return int(lines[0].removeprefix("pid ")), [Account(*map(int, line.split())) for line in lines[1:]]


def ledger(threads, calls, then, kind="calls"):
    return accounts_of(run(victim("ledger"), str(threads), str(calls), then, kind))


def accounted(counts):
    return sum(counts[what] for what in ("recorded", "left_out", "overwritten", "lost"))


def assert_each_call_is_accounted(incident, accounts, at_least=128):
    """Of threads that came to rest: what each entered is what is said of it."""
    assert incident.tids == {account.tid for account in accounts}
    for account in accounts:
        counts = incident.accounting(account.tid)
        assert accounted(counts) == account.entered, account
        assert counts["recorded"] == len(incident.calls(account.tid)) >= min(account.entered, at_least), counts
        assert counts["lost"] == 0


def total(account):
    """Of one kind of event in quality.accounts: each that happened is in one of these."""
    return sum(count for place, count in account.items() if place != "happened")
