"""The bundle names the process that died, whatever it did to its identity before."""

import json
import shutil
import signal

import pytest

from lib.compiled import compiled
from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.reference import build_id
from lib.victims import run

HOSTILE_NAMES = [
    b"\x1b[31mred\x1b[0m",
    b"two\nlines",
    b'"quoted\\',
    b"\xff\xfe not utf8",
    b"\x9b31m c1",
    b"../../etc/x",
    b" ",
]


def test_exec_by_a_shell(recorder):
    died = run("sh", "-c", f"exec {victim('die')} null-read")
    incident = recorder.incident(died.pid)
    assert incident.process["exe"] == victim("die")
    assert incident.process["build_id"] == build_id(victim("die"))
    assert incident.process["comm"] == "die"
    assert incident.events("exec")


def test_exec_by_a_thread_that_is_not_the_leader(recorder):
    died = run(victim("thread_exec"), victim("die"), "null-read")
    incident = recorder.incident(died.pid)
    assert incident.process["pid"] == died.pid
    assert incident.process["exe"] == victim("die")
    assert incident.tids == {died.pid}
    assert incident.crashed["tid"] == died.pid


def test_a_child_of_a_shell(recorder):
    shell = run("sh", "-c", f"{victim('die')} null-read; true")
    incident = recorder.incident_of_child(shell.pid)
    assert incident.process["parent_comm"] == "sh"
    assert incident.process["exe"] == victim("die")


def test_other_pid_and_mount_namespaces(recorder):
    outer = run("unshare", "--pid", "--mount", "--fork", "--mount-proc", victim("die"), "null-read")
    incident = recorder.incident_of_child(outer.pid)
    assert incident.process["exe"] == victim("die")
    assert incident.process["build_id"] == build_id(victim("die"))
    assert incident.process["comm"] == "die"
    assert incident.process["pid"] != 1
    assert incident.tids == {incident.process["pid"]}


def test_a_program_of_another_root_is_not_the_hosts(recorder, tmp_path):
    """It has no build-id; what stands at its path on the host has one."""
    place, own = tmp_path / "app", compiled("faults.c", "-Wl,--build-id=none")
    shutil.copy(compiled("faults.c"), place)
    assert build_id(place)
    outer = run("unshare", "--mount", "sh", "-c", f"mount --bind {own} {place} && {place} null; true")
    incident = recorder.incident_of_child(outer.pid)
    assert incident.process["exe"] == str(place)
    assert incident.process["build_id"] is None
    modules = {module["path"]: module["build_id"] for module in json.loads(incident.text("modules.json"))}
    assert modules[str(place)] is None
    (libc,) = [path for path in modules if path.endswith("/libc.so.6")]
    assert modules[libc] == build_id(libc)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name(recorder, name):
    died = run(victim("renamer"), name)
    incident = recorder.incident(died.pid)
    assert incident.path.parent == recorder.state / "incidents"
    assert incident.id.isascii() and incident.id.isprintable() and " " not in incident.id
    assert incident.process["exe"] == victim("renamer")
    for verb in ("info", "timeline", "threads"):
        shown = recorder.ctl.text(verb, incident.id)
        assert not [c for c in shown if not c.isprintable() and c not in "\n\t"], verb
    assert incident.text("summary.txt").replace("\n", "").replace("\t", "").isprintable()
    assert len(recorder.ctl.json_lines("list")) == len(recorder.incidents())


@pytest.mark.parametrize("limit", ["0", "1"])
def test_no_core_allowed(recorder, limit):
    died = run("prlimit", f"--core={limit}", victim("die"), "null-read")
    incident = recorder.incident(died.pid)
    assert incident.process["exe"] == victim("die")
    assert incident.signal["name"] == "SIGSEGV"
    assert incident.crashed["tid"] == died.pid


def test_dead_at_its_first_instruction(recorder):
    died = run(victim("newborn"))
    incident = recorder.incident(died.pid)
    assert incident.process["exe"] == victim("newborn")
    assert incident.process["comm"] == "newborn"
    assert int(incident.signal["address"], 16) == 0x1D0


def test_the_longest_name_of_one_that_is_gone_when_it_is_looked_at(daemon, tmp_path):
    """A rule goes by the executable's path; of a process that /proc has no more only the kernel side knows it."""
    program = tmp_path / ("n" * 255)
    shutil.copy(victim("die"), program)
    watcher = daemon(rules=CRASH_RULE + f'match = {{ exe = ["{program}"] }}\n')
    watcher.process.send_signal(signal.SIGSTOP)
    try:
        died = run(str(program), "null-read")
    finally:
        watcher.process.send_signal(signal.SIGCONT)
    assert watcher.incident(died.pid).process["exe"] == str(program)


@pytest.mark.slow
def test_many_that_die_as_soon_as_they_are_born(recorder):
    pids = [int(line) for line in run(victim("storm"), "30", victim("newborn")).lines]
    for pid in pids:
        incident = recorder.incident(pid)
        assert incident.process["exe"] == victim("newborn")
        assert incident.process["parent_comm"] == "storm"


def test_another_user(recorder):
    died = run("perl", "-e", "kill 'SEGV', $$", user=65534)
    assert recorder.incident(died.pid).process["uid"] == 65534
