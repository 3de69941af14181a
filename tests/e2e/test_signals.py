"""Who sent it, whether it kills, and which rules want to know."""

import os

import pytest

from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.victims import finish, run, running

NOBODY = 65534


def rule(name, signals, more):
    return f'[[rule]]\nname = "{name}"\non = "signal"\nsignals = {signals}\n{more}\n'


def kill_from_outside(signal, user=0):
    """A sleeping process killed by kill(1); gives both as they ended."""
    with running("sleep", "infinity", user=user) as target:
        sender = run("/bin/kill", f"-{signal.removeprefix('SIG')}", str(target.pid), user=user)
        return finish(target), sender


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT"])
def test_another_process_sends_it(recorder, signal):
    died, sender = kill_from_outside(signal)
    incident = recorder.incident(died.pid)
    assert incident.signal["name"] == signal
    assert incident.signal["code_name"] == "SI_USER"
    assert incident.signal["sender"]["pid"] == sender.pid
    assert incident.signal["sender"]["comm"] == "kill"
    assert incident.signal["sender"]["uid"] == 0


def test_the_senders_user(recorder):
    died, sender = kill_from_outside("SIGSEGV", NOBODY)
    incident = recorder.incident(died.pid)
    assert incident.process["uid"] == NOBODY
    assert incident.signal["sender"]["pid"] == sender.pid
    assert incident.signal["sender"]["uid"] == NOBODY


def test_a_fault_has_no_sender(recorder):
    died = run(victim("die"), "null-read")
    assert recorder.incident(died.pid).signal.get("sender") is None


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL", "SIGQUIT"])
def test_any_fatal_signal_can_be_asked_for(daemon, signal):
    watcher = daemon(rules=rule("killed", [signal], 'match = { comm = ["sleep"] }'))
    died, sender = kill_from_outside(signal)
    incident = watcher.incident(died.pid)
    assert incident.record["rule"] == "killed"
    assert incident.signal["name"] == signal
    assert incident.signal["sender"]["pid"] == sender.pid


def test_a_handled_signal_when_asked_for(daemon):
    watcher = daemon(
        rules=rule("seen", ["SIGSEGV"], f'fatal = false\nmatch = {{ exe = ["{victim("handled")}"] }}') + CRASH_RULE
    )
    survivor = run(victim("handled"), "segv", "1")
    assert survivor.status == 0
    incident = watcher.incident(survivor.pid)
    assert incident.record["rule"] == "seen"
    assert incident.signal["name"] == "SIGSEGV"


def test_ignored_signals_when_asked_for(daemon):
    """They are dropped where they are sent: by SIG_IGN, and by default (of which SIGCHLD and SIGURG come in storms)."""
    watcher = daemon(rules=rule("ignored", ["SIGUSR1", "SIGWINCH", "SIGCHLD"],
                                f'fatal = false\nmatch = {{ exe = ["{victim("handled")}", "*/env"] }}') + CRASH_RULE)
    ended = run(victim("handled"), "ignore", "SIGUSR1")
    assert ended.status == 0
    incident = watcher.incident(ended.pid)
    assert incident.signal["name"] == "SIGUSR1"
    assert incident.signal["disposition"] == "ignored" and incident.signal["fatal"] is False
    assert incident.signal["sender"]["pid"] == ended.pid
    (trigger,) = [event for event in incident.timeline if event.get("trigger")]
    assert (trigger["phase"], trigger["result"]) == ("generated", "ignored")
    # Others' children end all the time, and nobody is told of it.
    run("sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done")
    (state,) = [one for one in watcher.ctl.json("status")["rules"] if one["name"] == "ignored"]
    assert (state["state"], state["matched"]) == ("active", 1)
    with running("sleep", "infinity") as stranger:
        os.kill(stranger.pid, 28)
        run("/bin/kill", "-SEGV", str(stranger.pid))
        assert watcher.incident(stranger.pid).record["rule"] == "crash"


def test_sender_filter_by_comm(daemon):
    watcher = daemon(
        rules=rule("by-kill", ["SIGSEGV"], 'sender = { comm = ["kill"] }\nmatch = { comm = ["die", "sleep"] }')
    )
    fault = run(victim("die"), "null-read")
    died, _ = kill_from_outside("SIGSEGV")
    watcher.incident(died.pid)
    assert fault.pid not in [i.process["pid"] for i in watcher.incidents()]


def test_sender_filter_self(daemon):
    watcher = daemon(rules=rule("own", ["SIGSEGV", "SIGABRT"], 'sender = { self = true }\nmatch = { comm = ["die", "sleep"] }'))
    sent, _ = kill_from_outside("SIGSEGV")
    aborted = run(victim("die"), "abort")
    fault = run(victim("die"), "null-read")
    watcher.incident(aborted.pid)
    watcher.incident(fault.pid)
    assert sent.pid not in [i.process["pid"] for i in watcher.incidents()]


def test_a_signal_from_a_python_process(recorder):
    with running("sleep", "infinity") as target:
        os.kill(target.pid, 11)
        died = finish(target)
    assert recorder.incident(died.pid).signal["sender"]["pid"] == os.getpid()
