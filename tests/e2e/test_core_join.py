"""Each incident and its core in systemd-coredump's journal."""

import json
import re
import subprocess

import pytest

from lib.programs import victim
from lib.victims import run
from lib.wait import until

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
    recorder.explained_incident(died.pid)
    said = recorder.ctl.text(
        *("gdb", died.pid, "--", "-batch", "-ex", "incident summary", "-ex", "bt 8"),
        *("-ex", "incident timeline -n 15", "-ex", "incident files", "-ex", "incident signals"),
    )
    assert "SIGSEGV" in said
    assert "likely  null dereference" in said
    assert "  - the kernel raised SIGSEGV" in said
    assert "#0 " in said
    assert "/etc/hostname" in said


def test_gdb_selects_the_thread_that_died(recorder):
    died = run(victim("fifty_threads"))
    recorder.joined_incident(died.pid)
    crashing = next(int(line.split()[1]) for line in died.lines if line.startswith("crash"))
    assert f"LWP {crashing})" in recorder.ctl.text("gdb", died.pid, "--", "-batch", "-ex", "thread")


def test_gdb_explains_the_faulting_address_and_gives_values(recorder):
    died = run(victim("die"), "null-read")
    recorder.joined_incident(died.pid)
    said = recorder.ctl.text(
        *("gdb", died.pid, "--", "-batch", "-ex", "incident explain", "-ex", "incident explain $sp"),
        *("-ex", 'print $_incident("signal.name")', "-ex", 'print $_incident("process.pid") == %d' % died.pid),
    )
    assert "of a null pointer" in said
    assert "at the stack pointer" in said
    assert '= "SIGSEGV"' in said
    assert "= 1" in said


def test_in_another_pid_namespace(recorder):
    outer = run("unshare", "--pid", "--mount", "--fork", "--mount-proc", victim("die"), "null-read")
    pid = recorder.incident_of_child(outer.pid).process["pid"]
    assert recorder.joined_incident(pid).record["core"]["join"] == "exact"
    recorder.explained_incident(pid)
    said = recorder.ctl.text("gdb", pid, "--", "-batch", "-ex", "thread")
    # In its core it is known by the number it had in its own namespace.
    assert re.search(r"Current thread is 1 .*LWP 1\)", said), said
    assert f"tid {pid}, selected" in said and "not in the core" not in said  # the bundle's is the machine's
    assert re.search(r"^#0 ", recorder.ctl.text("gdb", pid, "--", "-batch", "-ex", "bt"), re.M)


def test_one_of_many_threads_in_another_pid_namespace(recorder):
    outer = run("unshare", "--pid", "--mount", "--fork", "--mount-proc", victim("fifty_threads"))
    crashing = next(int(line.split()[1]) for line in outer.lines if line.startswith("crash"))
    incident = recorder.incident_of_child(outer.pid)
    assert recorder.joined_incident(incident.process["pid"]).record["core"]["join"] == "exact"
    said = recorder.ctl.text("gdb", incident.process["pid"], "--", "-batch", "-ex", "thread")
    assert f"LWP {crashing})" in said and f"tid {incident.crashed['tid']}, selected" in said


def journal(*matches):
    said = subprocess.run(
        ["journalctl", "--no-pager", "-q", "-o", "json", *matches], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_the_journal_and_the_bundle_name_each_other(recorder):
    died = run(victim("die"), "null-read")
    recorder.joined_incident(died.pid)
    incident = recorder.explained_incident(died.pid)
    ours = f"INCIDENT_ID={incident.id}"
    (entry,) = until(lambda: journal(ours), "the incident's entry")
    assert entry["INCIDENT_RULE"] == "crash"
    assert entry["INCIDENT_VERDICT"] == incident.record["verdict"]["sentence"]
    assert entry["COREDUMP_EXE"] == victim("die")
    assert entry["PRIORITY"] == "2"
    of_both = journal(f"COREDUMP_PID={died.pid}", f"COREDUMP_FILENAME={incident.record['core']['file']}")
    assert {one["SYSLOG_IDENTIFIER"] for one in of_both} == {"systemd-coredump", "incidentd"}
    info = subprocess.run(["coredumpctl", "info", str(died.pid)], capture_output=True, text=True, check=True).stdout
    assert f"incidentctl info {incident.id}" in info
    shown = recorder.ctl.text("info", died.pid)
    assert incident.record["core"]["file"] in shown
    assert f"coredumpctl info {died.pid}" in shown


def test_coredumpctl_still_opens_the_core(recorder):
    died = run(victim("die"), "null-read")
    incident = recorder.joined_incident(died.pid)
    until(lambda: journal(f"INCIDENT_ID={incident.id}"), "the incident's entry")
    said = subprocess.run(
        ["coredumpctl", "-A", "-batch -ex bt", "debug", str(died.pid)], capture_output=True, text=True, check=True
    )
    assert re.search(r"^#0 ", said.stdout, re.M)


def test_a_death_without_a_core_has_an_entry_that_coredumpctl_does_not_show(daemon):
    killer = daemon(rules='[[rule]]\nname = "killed"\non = "signal"\nsignals = ["SIGKILL"]\n')
    died = run("bash", "-c", "kill -KILL $$")
    incident = killer.explained_incident(died.pid)
    (entry,) = until(lambda: journal(f"INCIDENT_ID={incident.id}"), "the incident's entry")
    assert entry["INCIDENT_CORE"] == "none"
    listed = subprocess.run(["coredumpctl", "info", str(died.pid)], capture_output=True, text=True, check=False)
    assert incident.id not in listed.stdout


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
