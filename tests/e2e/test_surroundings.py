"""What incidentd rests on fails: the journal, the handler of cores, the disk, the clock.  It goes on recording, nothing
hangs, and what was lost is said."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import SANITIZED, Daemon
from lib.dead_mount import dead_mount
from lib.incident import of_pid
from lib.programs import victim
from lib.victims import run
from lib.wait import PATIENCE, until
from test_dump_restart import CORE_PATTERN, slow_handler
from test_reported import entries, marks

EACH_WHOLE = "[storm]\nfull = 1000\n"
JOURNALD = Path("/run/incidentd-tests/journald.pid")
WITHOUT_CORE = ("prlimit", "--core=1:1")  # the kernel starts no handler then


def crash(watcher, *before):
    """The incident of a crash, written."""
    return watcher.incident(run(*before, victim("die"), "null-read").pid)


@contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_journal_that_hangs(daemon, coredump_host):
    """It takes some entries without reading them (net.unix.max_dgram_qlen), and then lets the sender wait."""
    if not JOURNALD.exists():
        pytest.skip("the journal is the machine's own")
    waits_for = 10 + int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    watcher = daemon(config=EACH_WHOLE + "[capture]\nanalyse = false\n")
    journald = int(JOURNALD.read_text().split()[0])
    with stopped(journald):
        names = [crash(watcher, *WITHOUT_CORE).id for _ in range(waits_for)]
        until(lambda: watcher.ctl.json("status")["untold"], "entries to wait", watcher.tail)
        watcher.ctl.text("verify", "--all")
        assert marks(watcher)
    until(lambda: not marks(watcher), "all to be told", watcher.tail)
    for name in names:
        (entry,) = until(lambda: entries(name), "its journal entry", watcher.tail)
        assert entry["INCIDENT_ID"] == name
    assert watcher.ctl.json("status")["untold"] == 0


def test_a_bundle_that_cannot_be_read_for_a_while_is_told_of_then(daemon, coredump_host):
    watcher = daemon(config='[capture]\nanalyse = false\ncore_wait = "1s"\n')
    with core_pattern("|/nowhere/systemd-coredump %P"):
        incident = crash(watcher)
        aside = (incident.path / "incident.json").rename(watcher.state / "aside")
    again = f"incident {incident.id}: .*; it is tried again, until then the journal does not tell of it"
    until(lambda: re.search(again, watcher.log.read_text()), "it to be said", watcher.tail)
    assert watcher.ctl.json("status")["untold"] == 1 and marks(watcher) == [incident.id]
    aside.rename(incident.path / "incident.json")
    (entry,) = until(lambda: entries(incident.id), "its journal entry", watcher.tail)
    assert entry["INCIDENT_ID"] == incident.id
    until(lambda: not marks(watcher), "its mark to be removed", watcher.tail)
    assert watcher.ctl.json("status")["untold"] == 0


def core_pending(watcher, name):
    """As the daemon has written it: incidentctl would look for itself."""
    return json.loads((watcher.state / "incidents" / name / "incident.json").read_text())["core"]["pending"]


def test_a_journal_that_cannot_be_read_to_its_end(daemon, coredump_host, tmp_path):
    """Its disk does not answer.  Incidents are written and told, and questions answered, without their cores."""
    journal = tmp_path / "journal" / Path("/etc/machine-id").read_text().strip()
    journal.mkdir(parents=True)
    hide = f'mount --bind {journal.parent} /var/log/journal && exec "$@"'
    with dead_mount(tmp_path / "mount") as (file, fail):
        (journal / "system.journal").symlink_to(file)
        config = '[capture]\nanalyse = false\ncore_wait = "1s"\n'
        watcher = daemon(config=config, prefix=("unshare", "--mount", "sh", "-c", hide, "sh"))
        ids = [crash(watcher).id for _ in range(3)]
        watcher.ctl.json("status")
        for name in ids:
            said = f"incident {name}: the search for its core has not ended: the journal does not answer"
            until(lambda: said in watcher.log.read_text(), "it to be said", watcher.tail)
            (entry,) = until(lambda: entries(name), "its journal entry", watcher.tail)
            assert entry["INCIDENT_ID"] == name
        fail()
        for name in ids:
            until(lambda: not core_pending(watcher, name), "an answer", watcher.tail)
        assert crash(watcher)
    until(lambda: not marks(watcher), "all to be told", watcher.tail)


def test_it_ends_though_the_journal_hangs(daemon, coredump_host):
    if not JOURNALD.exists():
        pytest.skip("the journal is the machine's own")
    waits_for = 10 + int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    watcher = daemon(config=EACH_WHOLE + "[capture]\nanalyse = false\n")
    with stopped(int(JOURNALD.read_text().split()[0])):
        names = {crash(watcher, *WITHOUT_CORE).id for _ in range(waits_for)}
        watcher.stop()
        untold = set(marks(watcher))
        assert untold and untold <= names
    watcher.start()
    until(lambda: not marks(watcher), "the next daemon to tell", watcher.tail)


class DaemonNobodyReads(Daemon):
    """Its standard error is a stream whose reader hangs, as journald's may."""

    def start(self):
        self.reader, writer = socket.socketpair()
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with writer:
            self.process = subprocess.Popen(
                [*self.command, "--foreground"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writer,
                env=self.environment(),
            )
        self.log.touch()
        until(self.is_ready, "incidentd to answer")
        return self


def test_a_log_that_nobody_reads(tmp_path):
    watcher = DaemonNobodyReads(tmp_path, config=EACH_WHOLE).start()
    try:
        for _ in range(20):
            crash(watcher)
        watcher.reader.setblocking(False)
        with pytest.raises(BlockingIOError):  # all that it took
            while watcher.reader.recv(1 << 16):
                pass
        crash(watcher)
        watcher.reader.settimeout(PATIENCE)
        text = b""
        while b"lines of this log were lost: nobody read them\n" not in text:
            text += watcher.reader.recv(1 << 16)
    finally:
        watcher.stop()


@contextmanager
def core_pattern(pattern):
    before = CORE_PATTERN.read_text()
    CORE_PATTERN.write_text(pattern)
    try:
        yield
    finally:
        CORE_PATTERN.write_text(before)


def test_no_handler_of_cores(daemon, coredump_host):
    watcher = daemon()
    with core_pattern("|/nowhere/systemd-coredump %P"):
        died = run(victim("die"), "null-read")
        incident = watcher.joined_incident(died.pid)
    assert incident.record["core"]["join"] == "none" and incident.record["core"]["reason"]
    watcher.explained_incident(died.pid)
    assert watcher.joined_incident(run(victim("die"), "null-read").pid).record["core"]["join"] == "exact"


def test_a_handler_that_hangs(daemon, coredump_host, tmp_path):
    """The process stays as long as its handler; its incident does not wait for it, nor does that of the next."""
    watcher = daemon(config='[capture]\ncore_wait = "1s"\n')
    with slow_handler(tmp_path):
        dying = [subprocess.Popen([victim("die"), "null-read"], stdout=subprocess.DEVNULL) for _ in range(3)]
        for process in dying:
            incident = watcher.joined_incident(process.pid)
            assert incident.record["core"]["join"] == "none" and incident.record["core"]["reason"]
            watcher.explained_incident(process.pid)
            assert process.poll() is None
    for process in dying:
        process.wait()
    watcher.ctl.text("verify", "--all")
    assert watcher.joined_incident(run(victim("die"), "null-read").pid).record["core"]["join"] == "exact"


def test_a_handler_that_is_slow(daemon, coredump_host, tmp_path):
    """It takes the core seconds after the death; until then the incident says that a core is awaited."""
    watcher = daemon()
    before = CORE_PATTERN.read_text()
    handler, gate = tmp_path / "systemd-coredump", tmp_path / "gate"
    os.mkfifo(gate)
    genuine = before.split()[0].lstrip("|")
    handler.write_text(f'#!/bin/sh\nread -r go <{gate}\nexec {genuine} "$@"\n')
    handler.chmod(0o755)
    with core_pattern(before.replace(genuine, str(handler))):
        with subprocess.Popen([victim("die"), "null-read"], stdout=subprocess.DEVNULL) as process:
            incident = watcher.incident(process.pid)
            assert core_pending(watcher, incident.id)
            gate.write_text("go\n")
            process.wait()
    joined = watcher.joined_incident(incident.process["pid"])
    assert joined.id == incident.id and joined.record["core"]["join"] == "exact"


@pytest.fixture
def own_mount(tmp_path):
    """A mount of the incidents' directory alone, which can be made read-only while a daemon uses it."""
    mounted = []

    def mount(state):
        directory = state / "incidents"
        directory.mkdir(parents=True, mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "none", directory], check=True)
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "--lazy", directory], check=True)


def remount(directory, how):
    def done():  # EBUSY while a file is open to be written
        return subprocess.run(["mount", "-o", f"remount,{how}", directory], capture_output=True, check=False).returncode == 0

    until(done, f"the file system to be {how}")


def test_a_file_system_that_becomes_read_only(daemon, own_mount):
    watcher = daemon(started=False, config=EACH_WHOLE)
    directory = own_mount(watcher.state)
    watcher.start()
    watcher.explained_incident(run(victim("die"), "null-read").pid)
    until(lambda: not marks(watcher), "it to be told", watcher.tail)
    remount(directory, "ro")
    lost = [run(victim("die"), "null-read").pid for _ in range(2)]

    def losses():
        return [loss for loss in watcher.ctl.json("status")["losses"] if loss["where"] == "incidents"]

    until(lambda: losses() and losses()[0]["count"] == 2, "both losses to be counted", watcher.tail)
    assert "Read-only file system" in losses()[0]["reason"]
    assert not any(of_pid(watcher.state, pid) for pid in lost)
    remount(directory, "rw")
    watcher.explained_incident(run(victim("die"), "null-read").pid)
    watcher.ctl.text("verify", "--all")


def test_a_daemon_that_sleeps(daemon):
    """As in a machine that is suspended while others die: what the kernel side kept is written when it wakes up."""
    watcher = daemon(config=EACH_WHOLE)
    with stopped(watcher.process.pid):
        died = [run(victim("die"), "null-read").pid for _ in range(5)]
    for pid in [*died, run(victim("die"), "null-read").pid]:
        incident = watcher.explained_incident(pid)
        assert incident.crashed["registers"] and incident.signal["name"] == "SIGSEGV"
    watcher.ctl.text("verify", "--all")


HOUR = 3600


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's library must be the first that is preloaded")
def test_the_clock_is_set(daemon, tmp_path, monkeypatch):
    """Forth and back by hours: each incident is whole and has the time of its moment."""
    offset = tmp_path / "offset"
    offset.write_text("0")
    monkeypatch.setenv("CLOCK_OFFSET", str(offset))
    preload = f"LD_PRELOAD={compiled('clock.c', '-shared', '-fPIC')}"
    watcher = daemon(config=EACH_WHOLE, prefix=["env", preload])
    for hours in (0, 5, -7, -2, 0):
        offset.write_text(str(hours * HOUR))
        incident = watcher.explained_incident(run(victim("die"), "null-read").pid)
        told = time.mktime(time.strptime(incident.id[:15], "%Y%m%dT%H%M%S")) - time.timezone - hours * HOUR
        assert abs(told - time.time()) < HOUR / 2, incident.id
        assert incident.crashed["registers"]
    until(lambda: not marks(watcher), "all to be told", watcher.tail)
    watcher.ctl.text("verify", "--all")
    assert len(watcher.incidents()) == 5
