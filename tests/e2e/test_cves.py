"""What those before us were attacked with: apport, abrt, systemd-coredump, whoopsie.  Each test names the CVEs of its class.

Other files have the rest: a crash replaced in the journal (CVE-2025-4598) test_core_forged.py, names in a bundle's path
test_identity.py, a file that becomes a link between the look at it and its reading (CVE-2019-7307, CVE-2019-11481)
test_hostile_files.py, a bundle from elsewhere tests/postmortem/hostile_test.cpp, rules and files that need much memory
tests/rules/mutation_test.cpp.
"""

import grp
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import SANITIZED
from lib.programs import victim
from lib.victims import let_die, run, waiting_victim

EVE = 12345
AS_EVE = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups")
SECRET = "what only root may read"
SUID_DUMPABLE = Path("/proc/sys/fs/suid_dumpable")
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


@pytest.fixture(name="public", scope="module")
def public_directory():
    """One that everybody may pass, with a program of hers; a file in it is root's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o711)
        shutil.copy(victim("die"), directory)
        (directory / "secret").write_text(f"{SECRET}\n")
        (directory / "secret").chmod(0o600)
        hers = directory / "hers"
        hers.mkdir()
        os.chown(hers, EVE, EVE)
        yield directory


def everything_in(incident):
    return b"".join(path.read_bytes() for path in incident.path.rglob("*") if path.is_file())


@contextmanager
def with_pid(pid, *argv):
    """A process that has this number, which another one has had until now."""
    for _ in range(1000):
        LAST_PID.write_text(str(pid - 1))
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        if process.pid == pid:
            break
        process.kill()
        process.wait()
    else:
        raise AssertionError(f"no process gets pid {pid}")
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("set_uid", [False, True])
def test_a_pid_that_another_process_has_by_now(daemon, public, set_uid):
    """CVE-2019-15790, CVE-2020-15702, CVE-2025-4598, CVE-2025-5054: what is read in /proc is of whom the kernel meant.
    In the last two a set-uid program's place is taken by one of its caller's."""
    program = set_uid_root(public) if set_uid else Path(victim("die"))
    as_caller = AS_EVE if set_uid else ()
    watcher = daemon()
    watcher.process.send_signal(signal.SIGSTOP)
    try:
        died = run(*as_caller, program, "null-read")
        with with_pid(died.pid, *as_caller, "sh", "-c", "read x; : of a stranger"):
            watcher.process.send_signal(signal.SIGCONT)
            incident = watcher.incident(died.pid)
    finally:
        watcher.process.send_signal(signal.SIGCONT)
    assert incident.process["exe"] == str(program)
    assert incident.process["comm"] == program.name
    assert b"of a stranger" not in everything_in(incident)
    assert incident.tids == {died.pid}
    assert_roots_alone(incident)


def set_uid_root(public):
    program = Path(shutil.copy(victim("die"), public / "set-uid"))
    os.chown(program, 0, 0)
    os.chmod(program, 0o4755)
    return program


@contextmanager
def suid_dumpable(value):
    before = SUID_DUMPABLE.read_text()
    SUID_DUMPABLE.write_text(value)
    try:
        yield
    finally:
        SUID_DUMPABLE.write_text(before)


@pytest.mark.parametrize("dumpable", ["0", "1", "2"])
def test_the_bundle_of_a_set_uid_program_is_not_its_callers(recorder, public, dumpable):
    """CVE-2017-14177, CVE-2022-4415: root's memory is not readable by who started the program, whatever
    fs.suid_dumpable says of its core."""
    program = set_uid_root(public)
    with suid_dumpable(dumpable):
        died = run(*AS_EVE, program, "null-read")
        incident = recorder.explained_incident(died.pid)
    assert incident.process["uid"] == EVE and incident.process["exe"] == str(program)
    assert_roots_alone(incident)


def assert_roots_alone(incident):
    for path in (incident.path, *incident.path.rglob("*")):
        status = path.lstat()
        assert status.st_uid == 0 and not status.st_mode & (stat.S_IRWXO | stat.S_IWGRP), path


def test_a_number_of_its_own_namespace_is_not_taken_for_the_hosts(recorder):
    """CVE-2017-14180, CVE-2018-6552: process 1 of a container is not process 1."""
    outer = run("unshare", "--pid", "--mount-proc", "--fork", victim("die"), "null-read")
    incident = recorder.explained_incident(recorder.incident_of_child(outer.pid).process["pid"])
    assert incident.process["pid"] != 1 and incident.process["exe"] == victim("die")
    ours = Path("/proc/1/cmdline").read_bytes().rstrip(b"\0")
    cmdline = incident.path / "process" / "cmdline"  # not there if the process had ended before it was read
    assert not cmdline.exists() or cmdline.read_bytes().rstrip(b"\0") != ours


def test_no_program_of_its_own_root_is_started(recorder, public):
    """CVE-2015-1862, CVE-2022-28657: a user's root holds programs with the names of those that we use."""
    root, mark = public / "hers" / "root", public / "hers" / "mark"
    for name in ("usr/bin", "usr/sbin", "usr/lib/systemd", "tmp", "proc"):
        (root / name).mkdir(parents=True)
    shutil.copy(compiled("faults.c", "-static"), root / "faults")
    shutil.copy(compiled("leaves_a_mark.c", "-static"), root / "usr/bin/sh")
    for name in ("usr/bin/gdb", "usr/bin/incidentctl", "usr/sbin/incidentd", "usr/lib/systemd/systemd-coredump"):
        shutil.copy(root / "usr/bin/sh", root / name)
    for path in (root, *root.rglob("*")):
        os.chown(path, EVE, EVE)
    mark.unlink(missing_ok=True)
    outer = run(*AS_EVE, "unshare", "--user", "--map-root-user", "--mount", "chroot", root, "/faults", "null")
    if outer.status == 1:
        pytest.skip("no user namespaces for users here")
    incident = recorder.explained_incident(outer.pid)
    assert incident.process["exe"].endswith("faults")
    assert not (root / "tmp" / "mark").exists()


def test_links_in_what_is_hers_lead_nowhere(recorder, public):
    """CVE-2015-3315, CVE-2021-3709, CVE-2021-32547 to 32557: perf map, /etc/os-release, a working directory's files."""
    hers = public / "hers"
    with waiting_victim_of_hers(public) as process:
        perf_map = Path(f"/tmp/perf-{process.pid}.map")
        perf_map.unlink(missing_ok=True)  # of an earlier process of this number
        subprocess.run([*AS_EVE, "ln", "-sf", public / "secret", perf_map], check=True)
        for name in ("core", "os-release", ".gdbinit", "die.debug"):
            subprocess.run([*AS_EVE, "ln", "-sf", public / "secret", hers / name], check=True)
        let_die(process)
    incident = recorder.explained_incident(process.pid)
    perf_map.unlink()
    assert SECRET.encode() not in everything_in(incident)
    for verb in ("info", "threads"):
        assert SECRET not in recorder.ctl.text(verb, incident.id)


def waiting_victim_of_hers(public):
    return waiting_victim("null-read", *AS_EVE, public / "die", cwd=public / "hers")


def test_a_fifo_keeps_nobody_waiting(recorder, public):
    """CVE-2021-25684: where a file is looked for there is a pipe that nobody writes to."""
    with waiting_victim_of_hers(public) as process:
        perf_map = Path(f"/tmp/perf-{process.pid}.map")
        perf_map.unlink(missing_ok=True)  # of an earlier process of this number
        subprocess.run([*AS_EVE, "mkfifo", perf_map], check=True)
        let_die(process)
    with waiting_victim("null-read", shutil.copy(victim("die"), public / "replaced")) as other:
        (public / "replaced").unlink()
        os.mkfifo(public / "replaced")
        let_die(other)
    for died in (process, other):
        incident = recorder.explained_incident(died.pid)
        assert incident.signal["name"] == "SIGSEGV"
        recorder.ctl.text("threads", incident.id)
    perf_map.unlink()


@pytest.mark.parametrize("name", [b") R 1 1 (x", b"x\nUid:\t0\t0\t0", b") 0 0 0 0 0 0 0", b"a\nPPid:\t1"])
def test_a_name_is_no_line_of_its_status(recorder, name):
    """CVE-2021-25682, CVE-2021-25683: /proc/PID/stat and status have the name in them as it is."""
    outer = run("sh", "-c", '"$0" "$1"; true', victim("renamer"), os.fsdecode(name), user=EVE, group=EVE)
    incident = recorder.incident_of_child(outer.pid)
    assert incident.process["uid"] == EVE
    assert incident.process["ppid"] == outer.pid
    assert incident.process["exe"] == victim("renamer")


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "..", "../incidents", "latest/../.."])
def test_a_name_does_not_lead_out_of_the_incidents(recorder, name):
    """CVE-2017-10708, CVE-2021-3710"""
    for verb in ("info", "timeline", "threads", "verify", "pin"):
        done = recorder.ctl.run(verb, name)
        assert done.returncode == 1 and "root:" not in done.stdout, verb


def test_the_largest_arguments_and_environment(recorder):
    """CVE-2022-28652, CVE-2022-28656: what a process brings along does not fill memory or disk."""
    long = "x" * 100_000
    environment = {f"V{i}": long for i in range(8)}
    died = run(victim("die"), "null-read", *[long] * 8, env=environment)
    incident = recorder.explained_incident(died.pid)
    assert incident.process["exe"] == victim("die")
    shown = recorder.ctl.text("info", incident.id)
    assert len(shown) < 100_000
    assert len(everything_in(incident)) < 16 << 20


def test_files_are_made_only_in_the_state_directory(daemon, tmp_path):
    """CVE-2012-5660, CVE-2015-5273, CVE-2015-5287, CVE-2019-11482, CVE-2019-11485, CVE-2020-8831, CVE-2020-8833,
    CVE-2026-54228 to 54230: no name that others may foresee, in a directory where they may make it first."""
    log = tmp_path / "strace"
    calls = "trace=open,openat,openat2,creat,mkdir,mkdirat,link,linkat,symlink,symlinkat,rename,renameat,renameat2,mknod,mknodat"
    watcher = daemon(prefix=["strace", "-D", "-f", "-qq", "-y", "-s", "4096", "-o", str(log), "-e", calls])
    died = run(victim("die"), "null-read")
    watcher.explained_incident(died.pid)
    watcher.stop()
    made = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if ("O_CREAT" in line or "mkdir" in line or "link" in line or "rename" in line or "mknod" in line or "creat(" in line)
        and " = -1 " not in line and "resumed>" not in line  # its other half names the paths
    ]
    assert made
    own = [str(watcher.state), "/run/incidentd", "/sys/kernel", "/memfd:", "/proc/"]
    if SANITIZED:
        own.append("/tmp/tsan.rodata.")  # ThreadSanitizer's own
    assert [line for line in made if not any(place in line for place in own) and "O_TMPFILE" not in line] == []


def test_readers_of_incidents_change_no_directory(daemon):
    """CVE-2026-54228 to 54230: who may read the incidents cannot put a link where the daemon writes next, nor take a
    bundle's place."""
    watcher = daemon(config=f'[access]\ngroup = "{grp.getgrgid(0).gr_name}"\n')
    died = run(victim("die"), "null-read")
    incident = watcher.explained_incident(died.pid)
    for directory in (watcher.state, watcher.state / "incidents", incident.path, incident.path / "process"):
        status = directory.lstat()
        assert status.st_uid == 0 and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH), directory


def test_who_reads_hostile_files_has_left_roots_groups(daemon, tmp_path):
    """CVE-2020-11936: the user was given up, and the group was not.  The child that parses a program's files keeps
    neither, nor any other group."""
    log = tmp_path / "strace"
    calls = "trace=setgroups,setresgid,setresuid,setuid,setreuid"
    watcher = daemon(prefix=["strace", "-D", "-f", "-qq", "-o", str(log), "-e", calls])
    died = run(victim("die"), "null-read")
    watcher.explained_incident(died.pid)
    watcher.stop()
    by_process = {}
    for pid, call in re.findall(r"^(\d+) +(\w+\(.*\)) += 0$", log.read_text(errors="replace"), re.MULTILINE):
        by_process.setdefault(pid, []).append(call)
    assert by_process
    for made in by_process.values():
        assert made == ["setgroups(0, NULL)", "setresgid(65534, 65534, 65534)", "setresuid(65534, 65534, 65534)"]


def test_nothing_of_a_bundle_is_run(recorder, public, tmp_path):
    """CVE-2016-9949 to 9951: the report was code.  CVE-2025-12744, CVE-2026-54231: what a process calls its files and its
    mounts was part of a command."""
    mark = tmp_path / "mark"
    command = f"touch {mark}"
    place = public / f"$(touch mark);'\n"
    place.mkdir()
    program = shutil.copy(victim("die"), place / "`touch mark`")
    arguments = ["null-read", f"\nshell {command}\n", f"$({command})", f"'; {command}; '"]
    died = run("unshare", "--mount", "sh", "-c", 'mount --bind . . && cd "$PWD" && exec "$@"', "sh", program, *arguments, cwd=place)
    assert died.status == -signal.SIGSEGV
    incident = recorder.explained_incident(died.pid)
    here = tmp_path / "here"
    here.mkdir()
    (here / ".gdbinit").write_text(f"shell {command}\n")
    for verb in (["info"], ["timeline"], ["threads"], ["gdb", incident.id, "--", "-batch", "-ex", "bt"]):
        if shutil.which("gdb") or verb[0] != "gdb":
            recorder.ctl.run(*verb, *([] if verb[0] == "gdb" else [incident.id]), cwd=here)
    assert not mark.exists() and not (place / "mark").exists() and not (here / "mark").exists()
