"""One user who takes all she can get leaves every other user's crashes whole."""

import os
import re
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lib.cgroup import cgroup, inside
from lib.programs import victim
from lib.victims import run, running
from lib.wait import until

GREEDY, MODEST = 65534, 65533  # users
CONFIG = "[storm]\nfull = 1000\n[capture]\nanalyse = false\n"


@pytest.fixture
def programs():
    """The victims where every user may execute them."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        for name in ("die", "greedy", "storm"):
            shutil.copy(victim(name), directory)
        yield Path(directory)


def rules(programs, *more):
    """crash is about the file that a process executes: who is not known by it is lost."""
    crash = f'[[rule]]\nname = "crash"\non = "signal"\nsignals = ["SIGSEGV"]\nmatch = {{ exe = ["{programs}/*"] }}\n'
    return "\n".join((crash, *more))


def handled(programs):
    return (
        '[[rule]]\nname = "handled"\non = "signal"\nsignals = ["SIGSEGV", "SIGWINCH"]\nfatal = false\n'
        f'match = {{ exe = ["{programs}/greedy"] }}\nlimit = {{ cooldown = "1h" }}\n'
    )


@contextmanager
def attack(programs, *what, times=1):
    """As many attackers of one user."""
    with ExitStack() as attackers:
        for _ in range(times):
            process = attackers.enter_context(running(programs / "greedy", *what, user=GREEDY, cwd="/"))
            assert process.stdout.readline() == b"ready\n"
        yield


def crashes(programs, count, user=MODEST):
    return [run(programs / "die", "null-read", user=user, cwd="/").pid for _ in range(count)]


def assert_whole(watcher, pids, programs):
    for pid in pids:
        incident = watcher.incident(pid)
        assert incident.record["rule"] == "crash"
        assert incident.process["exe"] == str(programs / "die")
        assert int(incident.crashed["registers"]["rip"], 16) != 0
        assert incident.crashed["stack"]["bytes"] > 0
        assert incident.quality["recorded"] > 0


def refused(watcher, what, user=GREEDY):
    losses = {loss["where"]: loss["count"] for loss in watcher.ctl.json("status")["losses"]}
    return losses.get(f"share of uid {user}: {what}", 0)


@contextmanager
def stopped(watcher):
    watcher.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        watcher.process.send_signal(signal.SIGCONT)


def test_signals_that_are_handled(daemon, programs):
    watcher = daemon(rules=rules(programs, handled(programs)), config=CONFIG)
    with attack(programs, "segv", times=2):
        died = crashes(programs, 15)
        until(lambda: refused(watcher, "other events"), "more than a share to be refused", watcher.tail)
        died += crashes(programs, 5, user=0)
        with stopped(watcher):
            died += crashes(programs, 5)
        assert_whole(watcher, died, programs)


def test_services_of_root(daemon, programs):
    """Root runs everybody's services: each of them has a share of its own, by its cgroup."""
    watcher = daemon(rules=rules(programs, handled(programs)), config=CONFIG)
    with cgroup("incidentd-test.slice/greedy.service") as greedy, cgroup("incidentd-test.slice/modest.service") as modest:
        with ExitStack() as attackers:
            for _ in range(2):
                process = attackers.enter_context(running(*inside(greedy, programs / "greedy", "segv"), cwd="/"))
                assert process.stdout.readline() == b"ready\n"
            until(lambda: refused_of_groups(watcher, "other events"), "more than a share to be refused", watcher.tail)
            died = [run(*inside(modest, programs / "die", "null-read"), cwd="/").pid for _ in range(10)]
            with stopped(watcher):
                died += [run(*inside(modest, programs / "die", "null-read"), cwd="/").pid for _ in range(5)]
            assert_whole(watcher, died, programs)
        assert refused_of_groups(watcher, "events that belong to deaths") == 0


def refused_of_groups(watcher, what):
    losses = watcher.ctl.json("status")["losses"]
    return sum(loss["count"] for loss in losses if re.fullmatch(f"share of (?!uid).*: {what}", loss["where"]))


def test_a_signal_without_a_capture_is_told_of(daemon, programs):
    """Beyond the captures of a second it is counted all the same."""
    count = 60
    often = (
        '[[rule]]\nname = "often"\non = "signal"\nsignals = ["SIGUSR1"]\nfatal = false\n'
        f'match = {{ uid = [{GREEDY}] }}\ncount = {count}\nwindow = "1h"\n'
    )
    watcher = daemon(rules=rules(programs, often))
    sends = f"$SIG{{USR1}} = sub {{}}; kill 'USR1', $$ for 1..{count}; kill 'KILL', $$"
    process = run("perl", "-e", sends, user=GREEDY, cwd="/")
    incident = watcher.incident(process.pid)
    assert incident.record["rule"] == "often"
    assert incident.signal["name"] == "SIGUSR1" and incident.signal["disposition"] == "handled"
    assert incident.record["matches"]["total"] == count
    assert [event for event in incident.timeline if event.get("trigger")]


def test_captures_of_a_second(daemon):
    """A process that ends well is gone when it is looked at from outside: only its own capture shows its threads."""
    rules = '[[rule]]\nname = "seven"\non = "exit"\nstatus = [7]\nlimit = { cooldown = "0s", per_hour = 20, by = "rule" }\n'
    watcher = daemon(rules=rules, config=CONFIG)
    with ExitStack() as attackers:
        for _ in range(2):
            attackers.enter_context(running("sh", "-c", "while :; do (exit 7); done", user=GREEDY, cwd="/"))
        until(lambda: rule_of(watcher, "seven")["matched"] > 200, "many ends", watcher.tail)
        ended = []
        for _ in range(12):
            ended.append(run("sh", "-c", "exit 7", user=MODEST, cwd="/").pid)
            time.sleep(0.3)
    for pid in ended:
        (thread,) = watcher.incident(pid).threads
        assert int(thread["registers"]["rip"], 16) != 0


def rule_of(watcher, name):
    (found,) = [rule for rule in watcher.ctl.json("status")["rules"] if rule["name"] == name]
    return found


def test_crashes_while_nobody_reads(daemon, programs):
    """Of each it is known who it was, also of those for which there was no room; the others' are whole."""
    watcher = daemon(rules=rules(programs), config=CONFIG)
    with stopped(watcher):
        many = [int(line) for line in run(programs / "storm", "150", user=GREEDY, cwd="/").lines]
        few = crashes(programs, 5) + crashes(programs, 5, user=0)
    assert_whole(watcher, few, programs)
    for pid in many:
        incident = watcher.incident(pid)
        assert incident.process["exe"] == str(programs / "storm")
        assert incident.process["uid"] == GREEDY
        assert int(incident.crashed["registers"]["rip"], 16) != 0
    assert refused(watcher, "events that belong to deaths") > 0
    assert refused(watcher, "events that belong to deaths", MODEST) == 0
    assert "made from the process table" in watcher.log.read_text()


def test_threads_that_sleep(daemon, programs):
    watcher = daemon(rules=rules(programs), config=CONFIG + "[record]\nthreads = 256\n")
    with attack(programs, "threads", "400"):
        until(lambda: refused(watcher, "rings of threads"), "more than a share to be refused", watcher.tail)
        assert_whole(watcher, crashes(programs, 5), programs)


def test_entries_of_processes(daemon, programs):
    watcher = daemon(rules=rules(programs), config=CONFIG + "[record]\nprocesses = 64\n")
    with attack(programs, "wait", times=80):
        until(lambda: refused(watcher, "entries of processes"), "more than a share to be refused", watcher.tail)
        died = crashes(programs, 5)
        assert_whole(watcher, died, programs)
        assert refused(watcher, "entries of processes", MODEST) == 0
    for pid in died:
        assert [event for event in watcher.incident(pid).timeline if event["kind"] == "exec"]


@pytest.mark.parametrize("what", ["name", "names", "crashes", "forks", "execs", "copies", "clones", "users", "ignored"])
def test_cheap_things_over_and_over(daemon, programs, what):
    """With a rule that asks for names, so that another one has to be judged."""
    named = '[[rule]]\nname = "named"\non = "signal"\nsignals = ["SIGSEGV"]\nmatch = { comm = ["nobody\'s"] }\n'
    watcher = daemon(rules=rules(programs, handled(programs), named), config=CONFIG)
    copy = programs / "copies"
    copy.mkdir()
    os.chown(copy, GREEDY, GREEDY)
    with attack(programs, what, "0", copy / "copy"):
        if what == "name":
            until(lambda: refused(watcher, "other events"), "more than a share to be refused", watcher.tail)
        assert_whole(watcher, crashes(programs, 10), programs)


def test_the_last_of_many_names_is_the_one_that_counts(daemon, programs):
    named = '[[rule]]\nname = "named"\non = "signal"\nsignals = ["SIGSEGV"]\nmatch = { comm = ["the last"] }\n'
    watcher = daemon(rules=named)
    often = "$0 = \"n$_\" for 1..2000; $0 = 'the last';"  # perl calls prctl(PR_SET_NAME) for it
    died = run("perl", "-e", often + "kill 'SEGV', $$", user=GREEDY, cwd="/")
    incident = watcher.incident(died.pid)
    assert incident.record["rule"] == "named"
    assert incident.quality["recorded"] > 0
