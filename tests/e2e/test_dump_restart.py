"""incidentd is killed around a dump that it asked for, and starts again: nobody is signalled twice, the hour goes on."""

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib import callers
from lib.incident import of_pid
from lib.programs import victim
from lib.victims import finish, running, start
from lib.wait import PATIENCE, until
from test_rule_dump import ALLOW, rule, slow_call

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


def stuck():
    return start(victim("trouble"), "pipe", "60000")


def status_of(process, key):
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return line.split()[1]
    return None


def refused(watcher, process):
    """Why it is not signalled, as its incident says; it still runs."""
    incident = watcher.incident(process.pid)
    assert process.poll() is None and not incident.record["dump"]["sent"]
    return incident.record["dump"]["refused"]


def whole(watcher):
    """No half bundle is left, and each that is there is what its manifest says."""
    def partial():  # of the moment, while a verdict is added
        return [path for path in (watcher.state / "incidents").iterdir() if ".partial" in path.name]

    until(lambda: not partial(), "half bundles to be gone", watcher.tail)
    for incident in watcher.incidents():
        watcher.ctl.text("verify", incident.id)


@contextmanager
def slow_handler(directory):
    """systemd-coredump is one that takes no core before the block ends."""
    handler, gate = directory / "systemd-coredump", directory / "gate"
    handler.write_text(f"#!/bin/sh\nuntil [ -e {gate} ]; do sleep 0.02; done\ncat >/dev/null\n")
    handler.chmod(0o755)
    before = CORE_PATTERN.read_text()
    CORE_PATTERN.write_text(f"|{handler} %P")
    try:
        yield
    finally:
        CORE_PATTERN.write_text(before)
        gate.touch()


def dumps_core(process):
    return status_of(process, "CoreDumping") == "1"


@pytest.mark.parametrize("allowed", [1, 5])
def test_one_that_dumps_already_is_not_signalled_again(daemon, coredump_host, tmp_path, allowed):
    watcher = daemon(rules=rule(), config=ALLOW + f"dumps_per_hour = {allowed}\n")
    first = stuck()
    with slow_handler(tmp_path):
        until(lambda: dumps_core(first), "the dump to begin", watcher.tail)
        watcher.kill()
        watcher.start()
        second = stuck()
        if allowed == 1:
            assert "1 were made to dump in the last hour" in refused(watcher, second)
            second.kill()
        else:
            until(lambda: dumps_core(second), "a restart to take nothing of what is left", watcher.tail)
        assert int(status_of(first, "ShdPnd"), 16) >> (signal.SIGABRT - 1) & 1 == 0, "a second signal"
        assert dumps_core(first)
    assert finish(first).status == -signal.SIGABRT
    assert finish(second).status == (-signal.SIGKILL if allowed == 1 else -signal.SIGABRT)
    assert len([i for i in of_pid(watcher.state, first.pid) if i.record["dump"]["sent"]]) <= 1
    whole(watcher)


def test_the_hour_goes_on_though_the_daemon_was_killed(daemon, coredump_host):
    watcher = daemon(rules=rule(), config=ALLOW + "dumps_per_hour = 1\n")
    first = stuck()
    assert finish(first).status == -signal.SIGABRT
    watcher.kill()
    watcher.start()
    with running(victim("trouble"), "pipe", "60000") as second:
        assert "last hour" in refused(watcher, second)
    whole(watcher)


def test_the_hour_goes_on_after_an_orderly_restart(daemon, coredump_host):
    watcher = daemon(rules=rule(), config=ALLOW + "dumps_per_hour = 2\n")
    assert finish(stuck()).status == -signal.SIGABRT
    watcher.stop()
    watcher.start()
    second = stuck()
    assert finish(second).status == -signal.SIGABRT, "one of two is left"
    watcher.incident(second.pid)
    with running(victim("trouble"), "pipe", "60000") as third:
        assert "2 were made to dump in the last hour" in refused(watcher, third)


def has_permit(process):
    """The daemon has written into the kernel side's map that it may signal this process."""
    dumped = subprocess.run(["bpftool", "map", "dump", "name", "permits"], capture_output=True, text=True, check=False)
    return f'"key": {process.pid},' in dumped.stdout


def test_a_signal_of_the_kernel_side_counts_though_the_daemon_was_killed(daemon, coredump_host, tmp_path):
    """It is sent in the process's own call: the daemon that is killed there and then has not heard of it."""
    watcher = daemon(rules=slow_call("slow", 'comm = ["service"]'), config=ALLOW + "dumps_per_hour = 1\n")
    with callers.told("service") as first, callers.told("service") as second:
        until(lambda: "lent" in (watcher.state / "dumps").read_text(), "the kernel side to be lent one", watcher.tail)
        until(lambda: callers.tell(first, "x") and has_permit(first), "the kernel side to be told of the process", watcher.tail)
        watcher.process.send_signal(signal.SIGSTOP)  # whatever happens from now on it does not know
        assert not callers.tell(first, "s")
        assert first.wait(PATIENCE) == -signal.SIGABRT
        watcher.kill()
        watcher.start()
        assert callers.tell(second, "s")
        assert "1 more may have been" in refused(watcher, second)


@pytest.mark.parametrize("allowed", [1, 2])
def test_killed_right_before_it_sends(daemon, coredump_host, allowed):
    """Its place is taken before: the next start does not know better."""
    watcher = daemon(
        rules=rule(),
        config=ALLOW + f"dumps_per_hour = {allowed}\n",
        prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pidfd_send_signal"]
        + ["-e", "inject=pidfd_send_signal:error=EINTR:signal=KILL"],
    )
    with running(victim("trouble"), "pipe", "60000") as process:
        watcher.process.wait(PATIENCE)
        watcher.prefix = []
        watcher.start()
        with running(victim("trouble"), "pipe", "60000") as later:
            if allowed == 1:
                assert "1 were made to dump" in refused(watcher, later)
            else:
                assert later.wait(PATIENCE) == -signal.SIGABRT
                watcher.incident(later.pid)
        assert process.poll() is None
    whole(watcher)


def test_killed_while_it_writes_the_bundle(daemon, coredump_host):
    """Wherever it is by then: what the next start finds is whole, or gone."""
    watcher = daemon(rules=rule(), config=ALLOW)
    for _ in range(5):
        process = stuck()

        def begun():
            return any(str(process.pid) in path.name for path in (watcher.state / "incidents").iterdir())

        until(begun, "its bundle to be begun", watcher.tail, every=0)
        watcher.kill()
        assert finish(process).status == -signal.SIGABRT
        watcher.start()
        whole(watcher)
        assert len(of_pid(watcher.state, process.pid)) <= 1
