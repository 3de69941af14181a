"""32-bit programs with glibc, on a kernel that executes them.  tests/vm/cases/i386.sh has one without it on Debian's."""

import json
import os
import signal
import subprocess

import pytest

from lib.compiled import compiled
from lib.ctl import Ctl
from lib.kept import own, until_kept
from lib.victims import let_die, run, running, start
from lib.wait import until

RULE = """
[[rule]]
name = "narrow"
on = "signal"
signals = ["SIGSEGV", "SIGABRT", "SIGKILL"]
"""


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    from lib.daemon import Daemon

    try:
        subprocess.run([program()], check=True)
    except OSError as error:
        pytest.skip(f"this kernel executes no i386 programs: {error}")
    daemon = Daemon(tmp_path_factory.mktemp("watcher"), rules=RULE).start()
    yield daemon
    daemon.stop()


def program():
    return compiled("narrow.c", "-m32", "-O2")


def asleep(pid):
    tasks = os.listdir(f"/proc/{pid}/task")
    states = [open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii").read().rsplit(") ", 1)[1][0] for tid in tasks]
    return set(states) == {"S"}


def names(thread):
    return [frame["symbol"] for frame in thread["stack"]["frames"]]


def in_order(wanted, found):
    rest = iter(found)
    return all(name in rest for name in wanted)


def crash(watcher, how):
    died = run(program(), how)
    return watcher.explained_incident(died.pid)


@pytest.mark.parametrize(
    "how, frames, why",
    [
        ("null", ["innermost", "outer", "main", "_start"], "null"),
        ("abort", ["abort", "innermost", "outer", "main", "_start"], "abort"),
        ("handler", ["innermost", "outer", "handle", "interrupted", "main", "_start"], "null"),
    ],
)
def test_a_crash_is_told_as_a_64_bit_one_is(watcher, how, frames, why):
    incident = crash(watcher, how)
    assert incident.process["isa"] == "i386"
    assert incident.quality["complete"], incident.quality["incomplete_because"]
    crashed = incident.crashed
    assert in_order(frames, names(crashed)), names(crashed)
    assert crashed["stack"]["truncated"] is False, crashed["stack"]["reason"]
    registers = crashed["registers"]
    assert "r8" not in registers and 0 < int(registers["esp"], 16) < 1 << 32 and int(registers["gs_base"], 16) != 0
    assert why in incident.record["verdict"]["sentence"]
    calls = [event["name"] for event in incident.timeline if event.get("path") == "/etc/hostname"]
    assert calls and set(calls) <= {"open", "openat"}
    waiting = next(thread for thread in incident.threads if thread["tid"] != crashed["tid"])
    assert "waits" in names(waiting), names(waiting)
    assert waiting["syscall"]["name"].startswith("clock_nanosleep"), waiting["syscall"]
    gdb = ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", program(), incident.path / "mini.core"]
    said = subprocess.run([*gdb, "-ex", "show architecture", "-ex", "bt"], capture_output=True, text=True, check=False)
    assert "i386" in said.stdout and "in outer (" in said.stdout and "in main (" in said.stdout, said


def test_kill_9_leaves_the_threads(watcher):
    with running(compiled("waits.c", "-m32", "-O2")) as victim:
        until(lambda: len(os.listdir(f"/proc/{victim.pid}/task")) == 3, "its threads")
        until(lambda: asleep(victim.pid), "its threads to sleep")
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    incident = watcher.explained_incident(victim.pid)
    assert incident.process["isa"] == "i386" and incident.record["mini_core"] is True
    stacks = [names(thread) for thread in incident.threads]
    assert sum("inner_wait" in stack and "outer_wait" in stack for stack in stacks) == 2, stacks


def test_its_stack_is_told_by_the_copy_of_a_file_that_is_gone(watcher, tmp_path):
    path = own(compiled("gone.c", "-m32", "-O2"), tmp_path)
    process = start(str(path), stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    until_kept(watcher, path)
    path.unlink()
    let_die(process)
    incident = watcher.explained_incident(process.pid)
    assert names(incident.crashed)[:4] == ["innermost", "middle", "outer", "main"], incident.crashed["stack"]
    assert incident.crashed["stack"]["truncated"] is False, incident.crashed["stack"]
    module = next(one for one in json.loads(incident.text("analysis.json"))["modules"] if one["path"] == str(path))
    assert module["file"] == "kept copy", module


def test_its_heap_is_not_probed_and_that_is_said(tmp_path):
    from lib.daemon import Daemon

    waits = compiled("waits.c", "-m32", "-O2")
    rule = RULE + f'match = {{ exe = ["{waits}"] }}\ncontext = {{ allocations = "sizes" }}\n'
    daemon = Daemon(tmp_path, rules=rule).start()
    try:
        with running(waits) as victim:
            until(lambda: "32-bit" in Ctl(daemon.state).text("status"), "the refusal")
            victim.kill()
            victim.wait()
            incident = daemon.explained_incident(victim.pid)
    finally:
        daemon.stop()
    assert not incident.quality["complete"]
    reasons = incident.quality["incomplete_because"]
    assert any("is a 32-bit program: only x86-64 ones can be probed" in why for why in reasons), reasons
