"""Processes that make themselves hard to look at: much of everything, files that do not answer, names that a terminal
acts upon, a /proc and a root of their own.

The bundle of each is whole or says what was cut, and others' are whole meanwhile.  tests/e2e/test_hostile_exec.py has
those that execute another program, tests/e2e/test_hostile_files.py those whose files lie.
"""

import os
import pty
import resource
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import Daemon
from lib.programs import INCIDENTCTL, victim
from lib.victims import let_die, run, start
from lib.wait import PATIENCE

EVE = 12345
MAP_COUNT = Path("/proc/sys/vm/max_map_count")
BUNDLE_MAX = 24 << 20


@contextmanager
def hostile(kind, *more, prefix=(), program=None, **options):
    """`hostile KIND`, ready to die."""
    argv = [*prefix, program or compiled("hostile.c"), kind, *map(str, more)]
    process = start(*argv, stdin=subprocess.PIPE, **options)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def leave_a_core():
    """It dies as slowly as its core is written, and can be looked at meanwhile."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def size_of(incident):
    return sum(path.stat().st_size for path in incident.path.rglob("*") if path.is_file())


def collector(incident, name):
    """What is said of one collector, or of all of them where the process had ended before the first."""
    (found,) = [c for c in incident.quality["collectors"] if c["name"] in (name, "process")]
    return found


def whole(watcher, pid):
    """The crash of a stranger."""
    incident = watcher.explained_incident(pid)
    assert incident.quality["threads_captured"] == incident.quality["threads"], incident.quality
    assert incident.crashed["registers"] and incident.crashed["stack"]["frames"][0]["symbol"]
    return incident


@pytest.fixture(name="recorder", scope="module")
def recorder_of_all(tmp_path_factory):
    """Each crash is kept whole, however many are alike."""
    shared = Daemon(tmp_path_factory.mktemp("hostile"), config="[storm]\nfull = 1000\n").start()
    yield shared
    shared.stop()


@pytest.fixture(name="map_count")
def more_mappings():
    before = MAP_COUNT.read_text()
    MAP_COUNT.write_text("262144")
    yield
    MAP_COUNT.write_text(before)


@pytest.mark.slow
def test_a_hundred_thousand_mappings(recorder, map_count):
    with hostile("mappings", 100_000) as process:
        let_die(process)
        stranger = run(victim("die"), "null-read")
    incident = recorder.explained_incident(process.pid)
    maps = (incident.path / "process" / "maps").read_bytes()
    assert maps.count(b"\n") > 1000
    assert len(maps) < 5 << 20 and size_of(incident) < BUNDLE_MAX
    if maps.count(b"\n") < 100_000:
        assert "maps: " in (collector(incident, "maps")["error"] or "") or "cut" in collector(incident, "maps")["error"]
    assert incident.crashed["registers"]
    assert recorder.ctl.text("info", incident.id)
    whole(recorder, stranger.pid)


@pytest.mark.slow
def test_fifty_thousand_descriptors(recorder, tmp_path):
    count = min(50_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 64)
    with hostile("descriptors", count, "large", cwd=tmp_path, preexec_fn=leave_a_core) as process:
        let_die(process)
        stranger = run(victim("die"), "null-read")
    incident = recorder.explained_incident(process.pid)
    assert size_of(incident) < BUNDLE_MAX
    told = collector(incident, "fds")
    if told["ok"]:  # else it had ended before it was looked at
        listed = (incident.path / "process" / "fds").read_bytes().count(b"\n")
        assert listed > 100
        assert listed >= count or f"cut: {listed} of" in told["error"]
    assert incident.crashed["stack"]["frames"][0]["symbol"] == "main"
    whole(recorder, stranger.pid)


@pytest.mark.slow
def test_two_mebibytes_of_arguments(daemon):
    """As much as execve(2) takes with a stack of 8 MiB, and as much again in the environment with a larger one."""
    watcher = daemon(rules='[[rule]]\nname = "crash"\non = "signal"\ncontext = { environ = true }\n')
    argument = "\x1b]0;owned\x07" + "x" * 130_000
    died = run(
        *(victim("die"), "null-read", *[argument] * 16),
        env={f"V{i}": argument for i in range(16)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.RLIM_INFINITY)),
    )
    incident = watcher.explained_incident(died.pid)
    assert incident.process["exe"] == victim("die")
    assert size_of(incident) < BUNDLE_MAX
    for name in ("cmdline", "environ"):
        told = collector(incident, name)
        if told["ok"]:  # else it had ended before it was looked at
            got = (incident.path / "process" / name).stat().st_size
            assert got >= 16 * 130_000 or "cut" in told["error"]
    for verb in ("info", "timeline", "threads"):
        shown = watcher.ctl.text(verb, incident.id)
        assert len(shown) < 200_000 and "\x1b" not in shown, verb


def test_what_stands_behind_descriptors(recorder, tmp_path):
    """FIFO, socket, pipe, device, another's memory, a memfd with a hostile name: named, never opened."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for _ in range(5):
        with hostile("kinds", fifo, "large", cwd=tmp_path, preexec_fn=leave_a_core) as process:
            let_die(process)
        incident = recorder.explained_incident(process.pid)
        (tmp_path / "core").unlink(missing_ok=True)
        if collector(incident, "fds")["ok"]:  # else it had ended before it was looked at
            break
    fds = (incident.path / "process" / "fds").read_text()
    for target in (str(fifo), "socket:", "pipe:", "/dev/zero", "/dev/full", "memfd:"):
        assert target in fds
    assert "\x1b" not in recorder.ctl.text("info", incident.id)


@pytest.mark.slow
def test_a_perf_map_of_a_gibibyte(recorder):
    """Sparse, so it costs its owner nothing."""
    with hostile("plain") as process:
        perf_map = Path(f"/tmp/perf-{process.pid}.map")
        perf_map.unlink(missing_ok=True)  # of an earlier process of this number
        try:
            with open(perf_map, "wb") as file:
                file.truncate(1 << 30)
            let_die(process)
            incident = recorder.explained_incident(process.pid)
        finally:
            perf_map.unlink()
    assert not (incident.path / "process" / "perf_map").exists()
    told = collector(incident, "perf_map")
    assert not told["ok"], told
    if told["name"] == "perf_map" and not told["error"].startswith("root:"):  # else the process had ended before
        assert "longer than" in told["error"], told
    assert size_of(incident) < BUNDLE_MAX


def test_one_that_is_not_dumpable(recorder):
    """PR_SET_DUMPABLE 0: no core of it, and its bundle is root's."""
    with hostile("undumpable") as process:
        let_die(process)
    incident = recorder.explained_incident(process.pid)
    assert incident.crashed["registers"] and incident.process["exe"] == compiled("hostile.c")
    assert incident.path.stat().st_mode & 0o077 == 0


def test_one_that_is_traced(recorder):
    """A tracer holds it at the signal, and it dies all the same, when the tracer lets it."""
    with hostile("traced") as process:
        let_die(process)
    incident = recorder.explained_incident(process.pid)
    assert incident.signal["name"] == "SIGSEGV"
    assert incident.crashed["stack"]["frames"][0]["symbol"] == "main"


# What a shell does in its own user, pid and mount namespaces before it executes the victim.
LIES = {
    "no /proc": "umount -l /proc || mount -t tmpfs none /proc",
    "an empty one": "mount -t tmpfs none /proc",
    "another's": "mount -t tmpfs none /proc && mkdir -p /proc/self /proc/1 && echo '1 (init) S 0' >/proc/1/stat"
    " && ln -s /etc/shadow /proc/self/maps && ln -s /etc/shadow /proc/1/maps && ln -s /bin/sh /proc/1/exe",
    "the true one": "mount -t proc none /proc",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_proc_in_namespaces_of_its_own(recorder, lie):
    """It is process 1 of its pid namespace, root of its user namespace, and /proc there says what it likes."""
    program = Path("/tmp") / f"hostile-{os.getpid()}"
    shutil.copy(victim("die"), program)
    try:
        outer = run(
            *("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups"),
            *("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount"),
            *("sh", "-c", f"({LIES[lie]}) 2>/dev/null; exec {program} null-read"),
        )
        if outer.status == 1:
            pytest.skip("no user namespaces for users here")
        incident = recorder.incident_of_child(outer.pid)
        incident = recorder.explained_incident(incident.process["pid"])
    finally:
        program.unlink()
    assert incident.process["exe"] == str(program)
    assert incident.process["pid"] != 1 and incident.process["uid"] == EVE
    assert incident.crashed["registers"]
    read = b"".join(path.read_bytes() for path in incident.path.rglob("*") if path.is_file())
    assert Path("/etc/shadow").read_bytes().splitlines()[0] not in read


ESCAPES = "\x1b]0;owned\x07\x1b[31;5m\x1b[6n\x9b2J"


def seen_on_a_terminal(*argv):
    """All that a program writes to its terminal."""
    parent, child = pty.openpty()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=child, stderr=child, env=os.environ | {"TERM": "xterm"}) as process:
        os.close(child)
        seen = b""
        while True:
            try:
                read = os.read(parent, 65536)
            except OSError:  # nobody has its other end open
                break
            if not read:
                break
            seen += read
        assert process.wait(timeout=PATIENCE) == 0, seen
    os.close(parent)
    return seen


@pytest.mark.skipif(not shutil.which("gdb"), reason="no gdb")
@pytest.mark.parametrize("mini", [False, True])
def test_gdb_shows_nothing_that_a_terminal_acts_upon(daemon, coredump_host, tmp_path, mini):
    """gdb prints arguments as they are ("Core was generated by …"), and names of files."""
    place = tmp_path / f"d{ESCAPES}"
    place.mkdir()
    program = shutil.copy(compiled("hostile.c"), place / f"p{ESCAPES}")
    watcher = daemon()
    with hostile("named", ESCAPES, program=program) as process:
        let_die(process)
    incident = watcher.joined_incident(process.pid)
    incident = watcher.explained_incident(process.pid)
    options = ["--mini"] if mini else []
    if not mini:
        assert incident.record["core"]["file"], incident.record["core"]
    command = [INCIDENTCTL, "--state", str(watcher.state), "gdb", incident.id, *options, "--", "-batch"]
    seen = seen_on_a_terminal(*command)
    assert b"terminated with signal SIGSEGV" in seen, seen
    for acted_upon in (b"\x1b]", b"\x07", b"\x1b[31;5m", b"\x1b[6n", b"\xc2\x9b"):
        assert acted_upon not in seen, seen
    assert b"\\x1b]0;owned\\x07" in seen, seen
