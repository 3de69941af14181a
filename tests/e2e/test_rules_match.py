"""Which processes are watched follows from the rules; decided before and after the daemon's start alike."""

import os
import shutil
import signal

import pytest

from lib.cgroup import cgroup, inside
from lib.programs import victim
from lib.reference import Strace
from lib.victims import finish, let_die, run, running, waiting_victim
from lib.wait import until

NOBODY = 65534


def rules(match, signals='["SIGSEGV"]'):
    return f'[[rule]]\nname = "some"\non = "signal"\nsignals = {signals}\nmatch = {{ {match} }}\n'


@pytest.fixture
def other(tmp_path):
    """The same program under another path and name."""
    return shutil.copy(victim("die"), tmp_path / "other")


def assert_only(watcher, watched, unwatched):
    """The watched one died last, so an incident of the other would have come before its own."""
    assert watcher.incident(watched).record["rule"] == "some"
    assert unwatched not in [i.process["pid"] for i in watcher.incidents()]


@pytest.mark.parametrize(
    "match",
    [
        f'exe = ["{victim("die")}"]',
        'exe = ["/no/such", "*/victims/*"]',
        'comm = ["di?"]',
        'comm = ["die"], uid = [0]',
        'comm = ["die"], uid = ["root"]',
    ],
)
def test_started_after_the_daemon(daemon, other, match):
    watcher = daemon(rules=rules(match))
    unwatched = run(other, "null-read")
    watched = run(victim("die"), "null-read")
    assert_only(watcher, watched.pid, unwatched.pid)


@pytest.mark.parametrize("match", [f'exe = ["{victim("die")}"]', 'comm = ["die"]'])
def test_started_before_the_daemon(daemon, other, match):
    with waiting_victim("null-read") as watched, waiting_victim("null-read", other) as unwatched:
        watcher = daemon(rules=rules(match))
        let_die(unwatched)
        let_die(watched)
        assert_only(watcher, watched.pid, unwatched.pid)


def test_all_keys_must_hold(daemon):
    watcher = daemon(rules=rules(f'comm = ["sleep", "perl"], uid = [{NOBODY}]'))
    root = run("perl", "-e", "kill 'SEGV', $$")
    nobody = run("perl", "-e", "kill 'SEGV', $$", user=NOBODY)
    assert_only(watcher, nobody.pid, root.pid)


def test_a_process_that_changes_its_user(daemon):
    """What counts is the user it has when it dies."""
    watcher = daemon(rules=rules(f'uid = [{NOBODY}]'))
    died = run("setpriv", "--reuid", str(NOBODY), "perl", "-e", "kill 'SEGV', $$")
    assert watcher.incident(died.pid).process["uid"] == NOBODY


@pytest.mark.parametrize("match", ['unit = ["incidentd-test.service"]', 'cgroup = ["/system.slice/incidentd-test.*"]'])
def test_by_unit_and_cgroup(daemon, match):
    watcher = daemon(rules=rules(match))
    unwatched = run(victim("die"), "null-read")
    with cgroup("system.slice/incidentd-test.service") as directory:
        watched = run(*inside(directory, victim("die"), "null-read"))
        incident = watcher.incident(watched.pid)
    assert incident.process["unit"] == "incidentd-test.service"
    assert incident.process["cgroup"] == "/system.slice/incidentd-test.service"
    assert_only(watcher, watched.pid, unwatched.pid)


def test_by_unit_started_before_the_daemon(daemon):
    with cgroup("system.slice/incidentd-test.service") as directory:
        with running(*inside(directory, "sleep", "infinity")) as watched:
            watcher = daemon(rules=rules('unit = ["incidentd-test.service"]'))
            os.kill(watched.pid, signal.SIGSEGV)
            finish(watched)
        assert watcher.incident(watched.pid).process["unit"] == "incidentd-test.service"


def test_watched_from_the_first_syscall(daemon, tmp_path):
    """A process is recorded until it is ruled out: nothing the program did before the verdict is missing."""
    watcher = daemon(rules=rules(f'exe = ["{victim("die")}"]'))
    died = run(victim("die"), "stack-overflow")
    recorded = [call["name"] for call in watcher.incident(died.pid).calls(died.pid)]
    strace = Strace(tmp_path / "strace", victim("die"), "stack-overflow")
    execve, *traced = strace.calls(strace.first_tid())
    assert execve == "execve"
    assert recorded[-len(traced) :] == traced


def test_a_cooldown_suppresses_and_counts(daemon):
    limited = rules('comm = ["die"]').replace("match", 'limit = { cooldown = "1h", by = "exe" }\nmatch')
    watcher = daemon(rules=limited)
    first = run(victim("die"), "null-read")
    watcher.incident(first.pid)
    second = run(victim("die"), "null-read")

    def suppressed():
        (rule,) = watcher.ctl.json("status")["rules"]
        return rule["suppressed"] == 1

    until(suppressed, "the second death to be counted as suppressed")
    assert second.pid not in [i.process["pid"] for i in watcher.incidents()]


def test_a_program_that_was_replaced_is_the_same_service_still(daemon, other):
    """As an upgrade leaves it until it is restarted."""
    watcher = daemon(rules=rules(f'exe = ["{other}"]'))
    with waiting_victim("null-read", other) as process:
        fresh = shutil.copy(victim("die"), other.with_name("fresh"))
        os.rename(fresh, other)
        let_die(process)
        assert watcher.incident(process.pid).record["rule"] == "some"
