"""Programs that nobody here wrote die and are captured whole."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from lib.programs import victim
from lib.reference import Strace, build_id
from lib.victims import finish, run, start
from lib.wait import until

# As in production, the core-dump handler keeps a dying process's /proc readable for a while.
pytestmark = pytest.mark.usefixtures("coredump_host")

PYTHON_CRASH = ("/usr/bin/python3", "-c", "import ctypes; ctypes.string_at(0)")
COMPARED_CALLS = 100  # of the 128 that are kept

SCRIPTS = {
    "python3": PYTHON_CRASH,
    "bash SIGSEGV": ("bash", "-c", "read line < /etc/hostname; kill -SEGV $$"),
    "bash SIGABRT": ("bash", "-c", "read line < /etc/hostname; kill -ABRT $$"),
    "perl SIGSEGV": ("perl", "-e", "open my $f, '<', '/etc/hostname'; my $l = <$f>; kill 'SEGV', $$"),
    "perl SIGABRT": ("perl", "-e", "open my $f, '<', '/etc/hostname'; my $l = <$f>; kill 'ABRT', $$"),
}


def real_path(program):
    return os.path.realpath(shutil.which(program))


def assert_names_its_program(incident, program):
    assert incident.process["exe"] == real_path(program)
    assert incident.process["build_id"] == build_id(real_path(program))
    assert incident.process["comm"] == os.path.basename(program)


def test_python_reading_address_zero(recorder):
    died = run(*PYTHON_CRASH)
    incident = recorder.incident(died.pid)
    assert died.status == -signal.SIGSEGV
    assert_names_its_program(incident, "/usr/bin/python3")
    assert incident.process["pid"] == died.pid
    assert incident.process["argv"] == list(PYTHON_CRASH)
    assert incident.record["kind"] == "signal"
    assert incident.signal["number"] == signal.SIGSEGV
    assert incident.signal["name"] == "SIGSEGV"
    assert incident.signal["code_name"] == "SEGV_MAPERR"
    assert int(incident.signal["address"], 16) == 0
    assert incident.tids == {died.pid}
    assert incident.quality["complete"] is True, incident.quality["incomplete_because"]


@pytest.mark.parametrize("program", ["bash", "perl"])
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_interpreters_killing_themselves(recorder, program, name):
    died = run(*SCRIPTS[f"{program} {name}"])
    incident = recorder.incident(died.pid)
    assert died.status == -signal.Signals[name]
    assert_names_its_program(incident, program)
    assert incident.signal["name"] == name
    assert incident.signal["code_name"] == "SI_USER"
    assert incident.signal["sender"]["pid"] == died.pid
    assert incident.signal["sender"]["comm"] == program


@pytest.mark.parametrize("script", SCRIPTS)
def test_last_syscalls_are_those_strace_prints(recorder, script, tmp_path):
    strace = Strace(tmp_path / "strace", *SCRIPTS[script])
    died = run(*SCRIPTS[script])
    recorded = [call["name"] for call in recorder.incident(died.pid).calls(died.pid)]
    traced = strace.calls(strace.first_tid())
    assert recorded[-COMPARED_CALLS:] == traced[-COMPARED_CALLS:]


def test_a_fifty_thread_program(recorder):
    died = run(victim("fifty_threads"))
    incident = recorder.incident(died.pid)
    crashing = next(int(line.split()[1]) for line in died.lines if line.startswith("crash"))
    tids = {int(line) for line in died.lines if line.isdigit()}
    assert len(tids) == 50
    assert incident.tids == tids
    assert incident.crashed["tid"] == crashing
    assert incident.record["thread"]["tid"] == crashing
    assert int(incident.signal["address"], 16) < 4096
    assert incident.quality["threads"] == incident.quality["threads_captured"] == 50
    for thread in incident.threads:
        assert int(thread["registers"]["rip"], 16) != 0


class Redis:
    def __init__(self, directory, *options):
        self.socket = str(directory / "socket")
        self.process = start(
            *("redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", str(directory), "--save", ""),
            *("--enable-debug-command", "yes", "--daemonize", "no", *options),
        )
        until(lambda: self.command("PING").stdout == "PONG\n", "redis to answer")

    def command(self, *words):
        return subprocess.run(["redis-cli", "-s", self.socket, *words], capture_output=True, text=True, check=False)

    def tids(self):
        return {int(tid) for tid in os.listdir(f"/proc/{self.process.pid}/task")}


def test_redis_told_to_fault(recorder, tmp_path):
    redis = Redis(tmp_path, "--crash-log-enabled", "no")
    tids = redis.tids()
    redis.command("DEBUG", "SEGFAULT")
    died = finish(redis.process)
    incident = recorder.incident(died.pid)
    assert died.status == -signal.SIGSEGV
    assert incident.process["exe"] == real_path("redis-server")
    assert incident.process["build_id"] == build_id(real_path("redis-server"))
    assert incident.signal["code_name"] in ("SEGV_MAPERR", "SEGV_ACCERR")
    assert len(tids) > 1
    assert incident.tids == tids


def test_redis_that_reports_its_own_crash_first(recorder, tmp_path):
    """Its handler prints a report, then the server kills itself: one incident, of the signal that killed."""
    redis = Redis(tmp_path)
    redis.command("DEBUG", "SEGFAULT")
    died = finish(redis.process)
    incident = recorder.incident(died.pid)
    assert died.status == -signal.SIGSEGV
    assert incident.signal["code_name"] in ("SI_USER", "SI_TKILL")
    assert incident.signal["sender"]["pid"] == died.pid
    reported = re.search("Accessing address: (0x[0-9a-f]+)", "\n".join(died.lines))[1]
    fault = next(event for event in incident.events("signal") if event["name"] == "SIGSEGV")
    assert int(fault["address"], 16) == int(reported, 16)
