"""Making a process dump core because a rule says so, and all that may keep it from it."""

import signal

import pytest

from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.victims import finish, running, start

ALLOW = "[safety]\nallow_dump = true\n"


def rule(dump='"SIGABRT"', threshold="100ms"):
    return (
        f'[[rule]]\nname = "stuck"\non = "blocked"\nthreshold = "{threshold}"\nwhen = "deadline"\ndump = {dump}\n'
        'match = { comm = ["trouble"] }\nlimit = { cooldown = "1h", by = "process" }\n'
    )


def stuck():
    return start(victim("trouble"), "pipe", "60000")


def not_dumped(watcher, process):
    """Its incident, which says why; the process still runs."""
    incident = watcher.incident(process.pid)
    assert process.poll() is None
    assert not incident.record["dump"]["sent"]
    return incident.record["dump"]


def test_a_stuck_process_dumps(daemon, coredump_host):
    watcher = daemon(rules=rule() + CRASH_RULE, config=ALLOW)
    process = stuck()
    assert finish(process).status == -signal.SIGABRT
    incident = watcher.joined_incident(process.pid)
    assert incident.record["kind"] == "blocked"
    dump = incident.record["dump"]
    assert dump["asked"] and dump["sent"] and dump["by"] == "daemon" and dump["signal"] == "SIGABRT"
    assert dump["refused"] is None and dump["findings"]
    assert incident.record["core"]["join"] in ("exact", "window"), incident.record["core"]
    assert incident.record["core"]["file"]
    assert len(watcher.incidents()) == 1, "its death is no incident of its own"


def test_not_without_being_allowed(daemon):
    watcher = daemon(rules=rule())
    with running(victim("trouble"), "pipe", "60000") as process:
        assert "allow_dump" in not_dumped(watcher, process)["refused"]


def test_a_dry_run(daemon, coredump_host):
    watcher = daemon(rules=rule('{ signal = "SIGABRT", dry_run = true }'), config=ALLOW)
    with running(victim("trouble"), "pipe", "60000") as process:
        dump = not_dumped(watcher, process)
        assert dump["dry_run"] and "dry_run" in dump["refused"]


@pytest.mark.parametrize("never", ["trouble", "*/victims/*"])
def test_never_those(daemon, never):
    watcher = daemon(rules=rule(), config=ALLOW + f'never = ["{never}"]\n')
    with running(victim("trouble"), "pipe", "60000") as process:
        assert "never" in not_dumped(watcher, process)["refused"]


def test_not_where_the_signal_is_ignored(daemon, coredump_host):
    watcher = daemon(rules=rule('"SIGQUIT"'), config=ALLOW)
    with running("sh", "-c", 'trap "" QUIT; exec "$0" pipe 60000', victim("trouble")) as process:
        assert "ignores SIGQUIT" in not_dumped(watcher, process)["refused"]


def test_only_so_many_an_hour(daemon, coredump_host):
    watcher = daemon(rules=rule(), config=ALLOW + "dumps_per_hour = 1\n")
    first = stuck()
    assert finish(first).status == -signal.SIGABRT
    watcher.incident(first.pid)
    with running(victim("trouble"), "pipe", "60000") as second:
        assert "last hour" in not_dumped(watcher, second)["refused"]
