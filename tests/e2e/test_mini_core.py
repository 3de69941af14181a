"""mini.core: what a debugger sees of a process that left no core."""

import os
import re
import signal
import subprocess
import time

import pytest

from lib.compiled import compiled
from lib.victims import run, running
from lib.wait import PATIENCE, until

RULE = """
[[rule]]
name = "death"
on = "signal"
signals = ["SIGKILL", "SIGSEGV", "SIGABRT"]
"""


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    from lib.daemon import Daemon

    daemon = Daemon(tmp_path_factory.mktemp("watcher"), rules=RULE).start()
    yield daemon
    daemon.stop()


def tool(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=4 * PATIENCE, check=False)
    return done.stdout, done.stderr


def gdb(program, core, *commands):
    options = [option for command in commands for option in ("-ex", command)]
    return tool("gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", program, str(core), *options)


def killed(watcher, program, *arguments):
    """The bundle of a program killed while all its threads sleep."""
    with running(program, *arguments) as victim:
        until(lambda: asleep(victim.pid, 3), "its threads to sleep")
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        return watcher.explained_incident(victim.pid)


def asleep(pid, threads):
    tasks = os.listdir(f"/proc/{pid}/task")
    states = [open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii").read().rsplit(") ", 1)[1][0] for tid in tasks]
    return len(tasks) == threads and set(states) == {"S"}


BUILDS = {"PIE": ("-O2",), "not PIE": ("-O2", "-no-pie", "-fno-pie"), "static": ("-O2", "-static")}


@pytest.fixture(scope="module", params=BUILDS)
def victim(request, watcher):
    program = compiled("waits.c", *BUILDS[request.param])
    return program, killed(watcher, program)


def test_kill_9_leaves_all_threads_for_gdb(victim):
    program, incident = victim
    assert incident.record["mini_core"] is True
    said, complaints = gdb(program, incident.path / "mini.core", "info threads", "thread apply all bt")
    for tid in incident.tids:
        assert f"LWP {tid})" in said or f"LWP {tid} " in said
    assert said.count("in inner_wait (") == 2  # the other threads, some frames deep
    assert said.count("in outer_wait (") == 2
    assert "in main (" in said
    assert "??" not in said
    assert not re.search(r"(?i)warning|error|cannot", complaints), complaints


def test_its_registers_are_those_captured(victim):
    program, incident = victim
    said, _ = gdb(program, incident.path / "mini.core", "info registers rip rsp rbx r12 eflags fs_base")
    shown = dict(line.split()[:2] for line in said.splitlines() if re.match(r"^(r|eflags|fs_base)", line))
    registers = incident.crashed["registers"]
    for name in ("rip", "rsp", "rbx", "r12", "eflags", "fs_base"):
        assert int(shown[name], 16) == int(registers[name], 16)


def test_mappings_libraries_and_signal(victim):
    program, incident = victim
    said, _ = gdb(
        program, incident.path / "mini.core", "info proc mappings", "info sharedlibrary", "print $_siginfo.si_signo"
    )
    assert program in said
    assert "= 9" in said
    if "static" not in program:
        assert re.search(r"Yes.*libc\.so\.6", said)


def test_other_tools_read_it_without_complaint(victim):
    program, incident = victim
    core = str(incident.path / "mini.core")
    for argv in (["eu-readelf", "-n", core], ["readelf", "-aW", core], ["eu-stack", "--core", core, "-e", program]):
        said, complaints = tool(*argv)
        assert said
        assert not complaints, argv
    assert "inner_wait" in said  # eu-stack


def test_lldb_reads_it(victim):
    program, incident = victim
    said, _ = tool("lldb", "-b", program, "-c", str(incident.path / "mini.core"), "-o", "bt all")
    assert said.count("inner_wait") >= 2


def test_gdb_opens_it_where_there_is_no_core(watcher, victim):
    _, incident = victim
    said = watcher.ctl.text("gdb", incident.id, "--", "-batch", "-ex", "thread apply all bt")
    assert "mini.core" in said
    assert "inner_wait" in said


def test_the_bundle_opens_by_itself(victim, tmp_path):
    """Moved elsewhere, and nothing of ours installed."""
    _, incident = victim
    elsewhere = tmp_path / "else where"
    subprocess.run(["cp", "-r", str(incident.path), str(elsewhere)], check=True)
    said, complaints = tool("gdb", "-nx", "-q", "-batch", "-x", str(elsewhere / "gdb" / "open.gdb"), "-ex",
                            "incident summary", "-ex", "bt", "-ex", "incident explain $sp")
    assert "SIGKILL" in said, complaints
    assert "at the stack pointer" in said


def named_by_the_tree(line):
    """Special mappings have no name there, and the one of the kernel half is not in it."""
    return re.sub(r"(\[vvar\S*\]|\[vsyscall\])$", "", line).rstrip()


def test_the_mappings_of_a_process_gone_at_once_are_the_kernel_s(watcher):
    """Nobody could read /proc: what the dying thread said is what /proc would have."""
    program = compiled("waits.c", "-O2")
    for _ in range(20):  # now and then the daemon is there in time
        with running(program) as victim:
            until(lambda: asleep(victim.pid, 3), "its threads to sleep")
            with open(f"/proc/{victim.pid}/maps", encoding="utf-8") as maps:
                before = maps.read().splitlines()
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
            incident = watcher.incident(victim.pid)
        if any(collector["name"] == "kernel maps" for collector in incident.quality["collectors"]):
            break
    else:
        pytest.fail("the daemon was in time 20 times")
    expected = [named_by_the_tree(line) for line in before if "[vsyscall]" not in line]
    assert [line.rstrip() for line in incident.text("process/maps").splitlines()] == expected


def test_build_ids_of_all_code_are_kept(watcher):
    incident = killed(watcher, compiled("waits.c", "-O2"))
    modules = [line.strip().rstrip(",") for line in incident.text("modules.json").splitlines()]
    assert any("libc.so.6" in line and re.search(r'"build_id":"[0-9a-f]{40}"', line) for line in modules)
