"""Each incident and its core in systemd-coredump's journal."""

import subprocess

import pytest

from lib.programs import victim
from lib.victims import run

pytestmark = pytest.mark.usefixtures("coredump_host")


def test_the_core_is_joined(recorder):
    died = run(victim("die"), "null-read")
    core = recorder.joined_incident(died.pid).record["core"]
    assert core["join"] == "exact", core
    assert core["journal_cursor"]
    assert f".{died.pid}." in core["file"]


def test_the_core_comes_out_decompressed(recorder, tmp_path):
    died = run(victim("die"), "null-read")
    recorder.joined_incident(died.pid)
    recorder.ctl.text("core", died.pid, "-o", tmp_path / "core")
    described = subprocess.run(["readelf", "-h", tmp_path / "core"], capture_output=True, text=True, check=True)
    assert "CORE (Core file)" in described.stdout


def test_gdb_opens_it_with_its_history(recorder):
    died = run("/usr/bin/python3", "-c", "import ctypes; open('/etc/hostname').read(); ctypes.string_at(0)")
    recorder.joined_incident(died.pid)
    said = recorder.ctl.text(
        *("gdb", died.pid, "--", "-batch", "-ex", "incident summary", "-ex", "bt 8"),
        *("-ex", "incident timeline -n 15", "-ex", "incident files", "-ex", "incident signals"),
    )
    assert "SIGSEGV" in said
    assert "#0 " in said
    assert "/etc/hostname" in said


def test_gdb_selects_the_thread_that_died(recorder):
    died = run(victim("fifty_threads"))
    recorder.joined_incident(died.pid)
    crashing = next(int(line.split()[1]) for line in died.lines if line.startswith("crash"))
    assert f"LWP {crashing})" in recorder.ctl.text("gdb", died.pid, "--", "-batch", "-ex", "thread")


def test_in_another_pid_namespace(recorder):
    outer = run("unshare", "--pid", "--mount", "--fork", "--mount-proc", victim("die"), "null-read")
    pid = recorder.incident_of_child(outer.pid).process["pid"]
    assert recorder.joined_incident(pid).record["core"]["join"] == "exact"


def test_a_core_limit_of_zero_does_not_keep_the_handler_away(recorder):
    """core(5): RLIMIT_CORE is not enforced for cores piped to a program."""
    died = run("prlimit", "--core=0", victim("die"), "null-read")
    assert recorder.joined_incident(died.pid).record["core"]["join"] == "exact"


def test_a_core_limit_of_one_does(recorder):
    died = run("prlimit", "--core=1", victim("die"), "null-read")
    core = recorder.joined_incident(died.pid).record["core"]
    assert core["join"] == "none"
    assert "RLIMIT_CORE" in core["reason"]


def test_a_signal_that_makes_no_core(daemon):
    killer = daemon(rules='[[rule]]\nname = "killed"\non = "signal"\nsignals = ["SIGKILL"]\nmatch = { comm = ["sh"] }')
    died = run("sh", "-c", "kill -KILL $$")
    core = killer.joined_incident(died.pid).record["core"]
    assert core["join"] == "none"
    assert "SIGKILL" in core["reason"]


def test_gdb_without_a_core_says_so(daemon):
    killer = daemon(rules='[[rule]]\nname = "killed"\non = "signal"\nsignals = ["SIGKILL"]\nmatch = { comm = ["sh"] }')
    died = run("sh", "-c", "kill -KILL $$")
    killer.joined_incident(died.pid)
    done = killer.ctl.run("gdb", died.pid, "--", "-batch")
    assert "SIGKILL" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_storm_of_twenty(recorder):
    """The kernel dumps core_pipe_limit (16) processes at a time and skips the others."""
    pids = [int(line) for line in run(victim("storm"), "20").lines]
    assert len(pids) == 20
    cores = [recorder.joined_incident(pid).record["core"] for pid in pids]
    for core in cores:
        if core["join"] == "exact":
            assert core["file"]
        else:
            assert core["join"] == "none"
            assert "core_pipe_limit" in core["reason"], core
