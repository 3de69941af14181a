"""What is kept beside the calls: each path, change of memory, signal, child is in exactly one account.

The victim does each of them itself and counts (tests/victims/ledger.c).
"""

import signal

import pytest

from lib import callers
from lib.ledger import ledger, total

THREADS = pytest.mark.parametrize("threads, times", [(1, 20), (1, 20_000), (2, 10_000), (16, 1000)])


def path_of(index, i):
    return f"/no/such/{index}/{i}"


@THREADS
def test_paths(recorder, threads, times):
    pid, accounts = ledger(threads, times, "blocked", "opens")
    incident = recorder.incident(pid)
    paths = incident.quality["accounts"]["paths"]
    assert total(paths) == paths["happened"] == sum(account.events for account in accounts)
    assert paths["cut"] == sum(account.cut for account in accounts)
    assert paths["unreadable"] == sum(account.unreadable for account in accounts)
    assert paths["pending"] == 0
    kept = 0
    for index, account in enumerate(accounts[1:], start=1):
        counts = incident.accounting(account.tid)
        assert (counts["opens"], counts["paths_cut"], counts["paths_faulted"]) == (
            account.events,
            account.cut,
            account.unreadable,
        )
        shown = incident.opens(account.tid)[-counts["opens_kept"] :]
        first = account.events - len(shown)
        whole = {i: event["path"] for i, event in enumerate(shown, start=first) if is_whole(event)}
        assert whole == {i: path_of(index, i) for i in whole}, "what is shown of a path is right"
        assert len(whole) == counts["paths_kept"] > 0
        assert counts["paths_overwritten"] + counts["paths_left_out"] + len(whole) == (
            account.events - account.cut - account.unreadable
        )
        kept += len(whole)
    assert paths["kept"] == kept


def is_whole(event):
    return "path" in event and "path_cut" not in event and "path_error" not in event


@THREADS
def test_memory(recorder, threads, times):
    pid, accounts = ledger(threads, times, "blocked", "memory")
    incident = recorder.incident(pid)
    memory = incident.quality["accounts"]["memory"]
    assert total(memory) == memory["happened"] == sum(account.events for account in accounts)
    for account in accounts[1:]:
        counts = incident.accounting(account.tid)
        assert counts["memory_events"] == account.events
        assert counts["memory_kept"] == len(incident.memory_events(account.tid)) == min(account.events, 16)
        assert counts["memory_overwritten"] == account.events - counts["memory_kept"]


@pytest.mark.parametrize("threads, times", [(1, 4), (1, 2000), (2, 1000), (16, 100)])
def test_signals(recorder, threads, times):
    """Each is seen when it is sent and when it is handled; the last is the one it dies of."""
    pid, accounts = ledger(threads, times, "blocked", "signals")
    handled = sum(account.events for account in accounts)
    incident = recorder.incident(pid)
    signals = incident.quality["accounts"]["signals"]
    assert signals["happened"] == 2 * handled + 2
    assert total(signals) == signals["happened"]
    assert signals["kept"] == len(incident.events("signal")) == min(signals["happened"], 16)
    assert signals["torn"] == 0


@pytest.mark.parametrize("children", [0, 3, 200])
def test_children(recorder, children):
    pid, (account,) = ledger(0, children, "blocked", "children")
    assert account.events == children
    incident = recorder.incident(pid)
    lineage = incident.quality["accounts"]["lineage"]
    assert lineage["happened"] == 1 + 2 * children  # born; each child's birth and end
    assert total(lineage) == lineage["happened"]
    assert lineage["kept"] == min(1 + 2 * children, 8)
    assert lineage["kept"] == len([e for e in incident.events("fork", "exit") if e["name"] in ("born", "child")])
    signals = incident.quality["accounts"]["signals"]
    assert signals["happened"] == children + 2, "each child's SIGCHLD, which it ignores, and the one it dies of"


def test_what_a_rule_leaves_out_is_not_called_overwritten(daemon):
    watcher = daemon(
        rules='[[rule]]\nname = "bare"\non = "signal"\nsignals = ["SIGSEGV"]\n'
        "context = { files = false, memory = false }\n"
    )
    pid, accounts = ledger(2, 10, "blocked", "opens")
    paths = watcher.incident(pid).quality["accounts"]["paths"]
    assert total(paths) == paths["happened"] == sum(account.events for account in accounts)
    assert paths["kept"] == 0
    assert paths["left_out"] + paths["overwritten"] == paths["happened"] - paths["cut"] - paths["unreadable"]
    assert paths["left_out"] > 0
    pid, accounts = ledger(1, 8, "blocked", "memory")
    memory = watcher.incident(pid).quality["accounts"]["memory"]
    assert memory == {"happened": accounts[1].events, "kept": 0, "overwritten": 0, "left_out": accounts[1].events}


def test_a_child_ends_once_however_many_of_its_threads_exit_together(recorder):
    children = 300
    parent = callers.start("family", "family", str(children))
    assert parent.stdout.read(1) == b"r"
    assert callers.end(parent) == -signal.SIGABRT
    lineage = recorder.incident(parent.pid).quality["accounts"]["lineage"]
    assert lineage["happened"] == 2 + 2 * children, "its own fork and exec, and of each child the start and the end"
