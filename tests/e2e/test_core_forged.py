"""Journal entries and files that others than systemd-coredump made, when a process of root's dies."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.programs import victim
from lib.victims import let_die, run, start, waiting_victim
from lib.wait import until

pytestmark = pytest.mark.usefixtures("coredump_host")

EVE = 12345
AS_EVE = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups")
CORES = Path("/var/lib/systemd/coredump")
GENUINE = "/usr/lib/systemd/systemd-coredump"
CORE_ENTRY = "fc2e22bc6ee647b6b90729ab34a250b1"  # SD_MESSAGE_COREDUMP


@pytest.fixture(name="public", scope="module")
def public_directory():
    """One that everybody may pass, with programs of hers: the checkout may be root's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o711)
        shutil.copy(victim("die"), directory)
        shutil.copy(compiled("forge.c"), f"{directory}/systemd-coredump")
        yield Path(directory)


@pytest.fixture(name="hers", scope="module")
def her_core(coredump_host, public):
    """A core of her own, which systemd-coredump stored."""
    died = run(*AS_EVE, public / "die", "null-read")
    return until(lambda: next(CORES.glob(f"core.*.{EVE}.*.{died.pid}.*"), None), "her core")


def entry(pid, core, **more):
    """What systemd-coredump would say of a crash of root's, with another core."""
    fields = {
        "MESSAGE_ID": CORE_ENTRY,
        "MESSAGE": f"Process {pid} (die) of user 0 dumped core.",
        "PRIORITY": "2",
        "COREDUMP_PID": str(pid),
        "COREDUMP_UID": "0",
        "COREDUMP_GID": "0",
        "COREDUMP_SIGNAL": "11",
        "COREDUMP_EXE": victim("die"),
        "COREDUMP_TIMESTAMP": f"{int(time.time())}000000",
        "COREDUMP_FILENAME": str(core),
        **more,
    }
    return "".join(f"{name}={value}\n" for name, value in fields.items()).encode()


def forger(public, pid, fields, user=AS_EVE):
    """Hers, ready to send when that process dies; pid 0: at once."""
    process = start(*user, public / "systemd-coredump", str(pid), stdin=subprocess.PIPE)
    process.stdin.write(fields)
    process.stdin.close()
    assert process.stdout.readline() == b"ready\n"
    return process


def sent(process):
    assert process.wait(timeout=30) == 0
    process.stdout.close()


def send_by_systemd_coredump(pid, fields):
    """The genuine program sends any fields for anybody: they come behind its own, and a field may occur twice."""
    arguments = [str(pid), "0", "0", "11", str(int(time.time())), "18446744073709551615", "host"]
    return subprocess.run(
        [*AS_EVE, GENUINE, "--backtrace", *arguments], input=fields + b"\n", capture_output=True, check=False
    )


def entries_of(pid):
    said = subprocess.run(
        ["journalctl", "-q", "--no-pager", "-o", "json", f"MESSAGE_ID={CORE_ENTRY}", f"COREDUMP_PID={pid}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


def both_come(pid):
    """Hers and systemd-coredump's.  Of an earlier process of this number there may be more."""
    until(lambda: {str(EVE)} < {one["_UID"] for one in entries_of(pid)}, "both entries", lambda: str(entries_of(pid))[:2000])


def is_core_of(core, pid):
    name = rf"{CORES}/core\.die\.0\.[0-9a-f]{{32}}\.{pid}\.\d+\.zst"
    return core["join"] == "exact" and re.fullmatch(name, core["file"])


@pytest.fixture(name="silent_handler")
def handler_that_logs_nothing(public):
    """kernel.core_pattern names a systemd-coredump that leaves no entry, so that hers is the only one."""
    (public / "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/true", public / "bin" / "systemd-coredump")
    pattern = Path("/proc/sys/kernel/core_pattern")
    before = pattern.read_text()
    pattern.write_text(f"|{public}/bin/systemd-coredump %P\n")
    yield
    pattern.write_text(before)


@pytest.mark.parametrize("attempt", range(2))
def test_an_entry_that_comes_before_the_true_one_is_not_joined(recorder, public, hers, attempt):
    with waiting_victim("null-read") as dying:
        eve = forger(public, dying.pid, entry(dying.pid, hers))
        let_die(dying)
        core = recorder.joined_incident(dying.pid).record["core"]
        sent(eve)
    both_come(dying.pid)
    assert is_core_of(core, dying.pid), core
    said = recorder.ctl.text("gdb", dying.pid, "--", "-batch", "-ex", "bt")
    assert str(hers) not in said and core["file"] in said


def test_an_entry_that_comes_after_the_true_one_does_not_replace_it(recorder, public, hers):
    died = run(victim("die"), "null-read")
    core = recorder.joined_incident(died.pid).record["core"]
    assert is_core_of(core, died.pid), core
    os.unlink(core["file"])  # as time does; then the journal is asked again
    sent(forger(public, 0, entry(died.pid, hers)))
    both_come(died.pid)
    shown = recorder.ctl.json("info", died.pid)["core"]
    assert shown["file"] == core["file"] and shown["file_bytes"] == 0
    done = recorder.ctl.run("core", died.pid, "-o", public / "core")
    assert done.returncode == 1 and "is no longer there" in done.stderr


@pytest.mark.parametrize("by", ["a program of that name", "the genuine program"])
def test_an_entry_that_comes_alone_is_not_joined(daemon, public, hers, silent_handler, by):
    watcher = daemon(config='[capture]\ncore_wait = "4s"\n')
    with waiting_victim("null-read") as dying:
        fields = entry(dying.pid, hers)
        eve = forger(public, dying.pid, fields) if by == "a program of that name" else None
        if not eve:
            done = send_by_systemd_coredump(dying.pid, fields)
            assert done.returncode == 0, done.stderr
        let_die(dying)
        incident = watcher.joined_incident(dying.pid)
        if eve:
            sent(eve)
    assert entries_of(dying.pid), "she was heard"
    core = incident.record["core"]
    assert core["join"] == "none" and not core["file"]
    assert f"it was not written by systemd-coredump but by uid {EVE}" in core["reason"], core["reason"]
    done = watcher.ctl.run("gdb", dying.pid, "--", "-batch", "-ex", "info files")
    assert str(hers) not in done.stdout + done.stderr


def test_a_users_own_crash_is_joined(recorder, public):
    """systemd-coredump becomes the user before it sends the entry."""
    died = run(*AS_EVE, public / "die", "null-read")
    core = recorder.joined_incident(died.pid).record["core"]
    assert core["join"] == "exact", core
    told = until(lambda: entries_of(died.pid), "its entry")[-1]  # pids come again
    assert told["_UID"] == str(EVE) and told["_TRANSPORT"] == "journal"
    assert told.get("_EXE", GENUINE) == GENUINE


def test_a_user_does_not_join_another_core_to_her_own_crash(daemon, public, silent_handler):
    """Not even the true one of an earlier process: what is told must be so."""
    watcher = daemon(config='[capture]\ncore_wait = "4s"\n')
    dying = start(*AS_EVE, public / "die", "null-read", "wait", stdin=subprocess.PIPE)
    assert dying.stdout.readline() == b"ready\n"
    other = next(iter(sorted(CORES.glob(f"core.*.{EVE}.*"))))
    auxv = Path(f"/proc/{dying.pid}/auxv").read_bytes()
    binary = b"COREDUMP_PROC_AUXV\n" + len(auxv).to_bytes(8, "little") + auxv + b"\n"
    eve = forger(public, dying.pid, entry(dying.pid, other, COREDUMP_UID=EVE, COREDUMP_EXE=public / "die") + binary)
    let_die(dying)
    core = watcher.joined_incident(dying.pid).record["core"]
    sent(eve)
    assert core["join"] == "none" and not core["file"], core


def test_a_bundle_does_not_lead_to_another_file(recorder, public, hers, tmp_path):
    """What a bundle says of its core is checked like what the journal says."""
    died = run(victim("die"), "null-read")
    incident = recorder.joined_incident(died.pid)
    recorder.explained_incident(died.pid)
    core = incident.record["core"]
    true_bytes = tmp_path / "true"
    recorder.ctl.text("core", died.pid, "-o", true_bytes)
    copy = tmp_path / incident.id
    shutil.copytree(recorder.state / "incidents" / incident.id, copy)
    hers_outside = public / "core"
    recorder.ctl.text("core", died.pid, "-o", hers_outside)  # even one of the same bytes
    os.chown(hers_outside, EVE, EVE)
    stem = core["file"].removesuffix(".zst")
    linked, symbolic = Path(stem + ".xz"), Path(stem + ".lz4")
    try:
        os.link(hers_outside, linked)
    except OSError:  # /tmp is another file system
        shutil.copy(hers_outside, linked)
        os.chown(linked, EVE, EVE)
    symbolic.symlink_to(hers_outside)
    try:
        record = json.loads((copy / "incident.json").read_text())
        for file in (hers_outside, linked, symbolic, hers):
            record["core"]["file"] = str(file)
            (copy / "incident.json").write_text(json.dumps(record))
            shown = recorder.ctl.json("info", copy)["core"]
            assert shown["file"] == core["file"], shown  # the journal was asked
            opened = tmp_path / f"core-{file.name}"
            recorder.ctl.text("core", copy, "-o", opened)
            assert opened.read_bytes() == true_bytes.read_bytes()
    finally:
        linked.unlink()
        symbolic.unlink()
