"""A process is left alone where the signal would not end it there and then, but be taken by somebody else, or wait."""

import ctypes
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager

from lib.cgroup import cgroup
from lib.compiled import compiled
from lib.programs import victim
from lib.victims import READ, running, until_in
from lib.wait import until

ALLOW = "[safety]\nallow_dump = true\n"


def rule(program, dump="SIGABRT", threshold="300ms"):
    return (
        f'[[rule]]\nname = "stuck"\non = "blocked"\nthreshold = "{threshold}"\nwhen = "deadline"\ndump = "{dump}"\n'
        f'match = {{ exe = ["{program}"] }}\nlimit = {{ cooldown = "1h", by = "process" }}\n'
    )


def refused(watcher, process):
    (incident,) = until(
        lambda: [i for i in watcher.incidents() if i.process["pid"] == process.pid], "its incident", watcher.tail
    )
    dump = incident.record["dump"]
    assert dump["asked"] and not dump["sent"], dump
    assert process.poll() is None
    return dump["refused"]


def test_not_where_a_thread_waits_for_the_signal(daemon, coredump_host):
    program = compiled("takes.c")
    watcher = daemon(rules=rule(program, "SIGQUIT"), config=ALLOW)
    with running(program, stdin=subprocess.PIPE) as process:
        assert "waits for SIGQUIT" in refused(watcher, process)
        process.stdin.close()
        assert process.stdout.read() == b"ready\n", "it took no signal"


@contextmanager
def traced(process):
    """By this process, which lets it go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    seize = 0x4206  # PTRACE_SEIZE, include/uapi/linux/ptrace.h
    assert libc.ptrace(seize, process.pid, None, None) == 0, os.strerror(ctypes.get_errno())
    yield


def test_not_one_that_somebody_debugs(daemon, coredump_host):
    watcher = daemon(rules=rule(victim("trouble")), config=ALLOW)
    with running(victim("trouble"), "pipe", "60000") as process, traced(process):
        assert f"process {os.getpid()} traces it" in refused(watcher, process)


def test_not_one_that_is_stopped(daemon, coredump_host):
    watcher = daemon(rules=rule(victim("trouble"), threshold="1s"), config=ALLOW)
    with running(victim("trouble"), "pipe", "60000") as process:
        until_in(process, READ)
        process.send_signal(signal.SIGSTOP)
        assert "stopped" in refused(watcher, process)


def test_not_one_in_a_frozen_cgroup(daemon, coredump_host):
    watcher = daemon(rules=rule(victim("trouble"), threshold="1s"), config=ALLOW)
    with cgroup("system.slice/frozen.service") as group, running(victim("trouble"), "pipe", "60000") as process:
        until_in(process, READ)
        (group / "cgroup.procs").write_text(str(process.pid))
        (group / "cgroup.freeze").write_text("1")
        try:
            assert "frozen" in refused(watcher, process)
        finally:
            (group / "cgroup.freeze").write_text("0")
            process.kill()
            process.wait()


def test_never_holds_when_the_program_has_been_replaced(daemon, coredump_host, tmp_path):
    """As an upgrade does it: the kernel names what still runs "PATH (deleted)"."""
    program = shutil.copy(victim("trouble"), tmp_path / "service")
    watcher = daemon(rules=rule("*/service*", threshold="1s"), config=ALLOW + f'never = ["{program}"]\n')
    with running(program, "pipe", "60000") as process:
        os.rename(shutil.copy(victim("trouble"), tmp_path / "fresh"), program)
        assert "[safety] never" in refused(watcher, process)
