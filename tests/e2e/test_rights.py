"""The daemon, which reads what others write, has no right to change the kernel; processes of their own have what that
takes, each for one thing."""

import os
import signal
from pathlib import Path

import pytest

from lib.programs import victim
from lib.victims import run
from lib.wait import until

DAC_READ_SEARCH, KILL, SETGID, SETUID, SYS_ADMIN, SYSLOG, PERFMON, BPF = 2, 5, 6, 7, 21, 34, 38, 39
# linux/capability.h; by the name of the process.
MAY = {
    "incidentd-bpf": {SYS_ADMIN, SYSLOG, PERFMON, BPF},
    "incidentd-tool": {DAC_READ_SEARCH, KILL, SETGID, SETUID},
    "incidentd-hook": set(),
}


def status_of(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def capabilities(pid):
    bits = int(status_of(pid)["CapPrm"], 16)
    return {n for n in range(64) if bits >> n & 1}


def test_each_process_has_the_rights_for_what_it_does(daemon):
    watcher = daemon(config='[hook]\nunit = "nothing@.service"\n')
    processes = watcher.processes()
    assert processes.keys() == MAY.keys()
    for name, pid in processes.items():
        assert capabilities(pid) <= MAY[name]
        assert status_of(pid)["NoNewPrivs"] == "1"
        held = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        assert not [one for one in held if one.startswith("/") and one not in ("/dev/null", str(watcher.log))], name
        assert name == "incidentd-bpf" or not [one for one in held if "bpf" in one]
    for thread in Path(f"/proc/{watcher.process.pid}/task").iterdir():
        assert not capabilities(thread.name) & {SYS_ADMIN, PERFMON, BPF, SETGID, SETUID}, thread
        assert status_of(thread.name)["NoNewPrivs"] == "1"
        assert status_of(thread.name)["Seccomp"] == "2"


@pytest.mark.parametrize("name", MAY)
def test_without_one_of_them_the_daemon_ends_to_be_started_again(daemon, name):
    """None can be started later: nobody has the rights any more."""
    watcher = daemon(config='[hook]\nunit = "nothing@.service"\n')
    os.kill(watcher.processes()[name], signal.SIGKILL)
    assert watcher.process.wait(60) == 1
    assert f"{name} has ended" in watcher.log.read_text()
    again = watcher.start()
    again.incident(run(victim("die"), "null-read").pid)


def test_they_go_with_a_daemon_that_is_killed(daemon):
    watcher = daemon()
    processes = watcher.processes().values()
    watcher.kill()
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in processes), "them to end")
