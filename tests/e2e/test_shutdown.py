"""Whenever it ends, what it leaves behind is a whole bundle or a recognisable partial one."""

import signal

import pytest

from lib.programs import victim
from lib.victims import running, run
from lib.wait import PATIENCE, until


def left_behind(daemon):
    """What is under incidents/ and is no committed bundle, nor the mark of one that is yet to be told of, nor the reserve
    of space."""
    names = [path.name for path in (daemon.state / "incidents").iterdir() if path.name.startswith(".")]
    return [name for name in names if name != ".reserve" and not name.startswith(".unreported-")]


def assert_only_whole_bundles(daemon):
    for incident in daemon.incidents():
        daemon.ctl.text("verify", incident.id)


def test_sigterm_while_processes_die(daemon):
    stopped = daemon()
    with running(victim("storm"), "20"):
        until(stopped.incidents, "the first incident of the storm")
        stopped.stop()
    assert left_behind(stopped) == []
    assert_only_whole_bundles(stopped)


def test_sigint_is_as_good_as_sigterm(daemon):
    stopped = daemon()
    stopped.process.send_signal(signal.SIGINT)
    assert stopped.process.wait(timeout=PATIENCE) == 0
    stopped.process = None


@pytest.mark.slow
def test_kill_and_restart(daemon):
    killed = daemon()
    with running(victim("storm"), "30"):
        until(killed.incidents, "the first incident of the storm")
        killed.kill()
    killed.start()
    assert left_behind(killed) == []
    assert_only_whole_bundles(killed)
    died = run(victim("die"), "null-read")
    killed.incident(died.pid)


def test_a_partial_bundle_of_an_earlier_life(daemon):
    first = daemon()
    died = run(victim("die"), "null-read")
    whole = first.incident(died.pid)
    first.stop()
    partial = whole.path.parent / f".partial-{whole.id}"
    partial.mkdir()
    (partial / "timeline.jsonl").write_text('{"t_ns": 1')
    first.start()
    assert left_behind(first) == []
    assert [i.id for i in first.incidents()] == [whole.id]


def test_incidents_outlive_the_daemon(daemon):
    first = daemon()
    died = run(victim("die"), "null-read")
    first.incident(died.pid)
    first.stop()
    assert first.ctl.json("info", died.pid)["process"]["pid"] == died.pid


@pytest.mark.slow
def test_no_descriptor_is_used_after_it_was_closed(daemon, tmp_path):
    """Its number may be another's by then.  The event loop forgot its descriptors after some had been closed."""
    log = tmp_path / "strace"
    calls = "trace=epoll_ctl,close,read,write,recvmsg,sendmsg,fstat"
    traced = daemon(prefix=["strace", "-D", "-f", "-qq", "-o", str(log), "-e", calls])
    died = run(victim("die"), "null-read")
    traced.explained_incident(died.pid)
    traced.stop()
    lines = log.read_text(errors="replace").splitlines()
    assert any("epoll_ctl" in line for line in lines)
    assert [line for line in lines if "EBADF" in line] == []
