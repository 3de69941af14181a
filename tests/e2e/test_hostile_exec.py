"""A process that executes another program between what makes a rule fire and the daemon's look at it.

pid and start stay as they are, so all that is read in /proc would be another program's: perhaps another user's.
"""

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from lib import compiled
from lib.dead_mount import dead_mount
from lib.programs import victim
from lib.victims import finish, run, running, start
from lib.wait import until

EVE = 12345
STRANGER = "of-a-stranger"
ANOTHER = "executed another program"
EACH_WHOLE = "[storm]\nfull = 1000\n"


def rule(kind, more=""):
    return f'[[rule]]\nname = "asked"\non = "{kind}"\n{more}\n'


SIGNALLED = rule("signal", 'signals = ["SIGUSR1"]\nfatal = false')
REFUSED = rule("syscall", 'syscall = ["openat"]\nerrno = ["ENOTDIR"]')
# What makes each fire, said to a shell.
MOMENTS = {"signal": (SIGNALLED, "trap : USR1; kill -USR1 $$"), "syscall": (REFUSED, "true </dev/null/x")}
both = pytest.mark.parametrize("moment", MOMENTS)


def told_of_it(incident):
    """What was read of the process.  Its memory may hold the script that names the next program."""
    process = incident.path / "process"  # missing, if it executed the next before anything was read
    files = [*(process.iterdir() if process.exists() else ()), incident.path / "incident.json", incident.path / "summary.txt"]
    return b"".join(path.read_bytes() for path in files)


def script(*lines):
    """In a file, so that the shell's own arguments say nothing of what it executes later."""
    file = programs() / "script"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o644)
    return file


@cache
def programs():
    """Where everybody may read."""
    made = Path(compiled.directory())
    made.chmod(0o755)
    return made


def executes(process, name):
    with open(f"/proc/{process.pid}/cmdline", "rb") as file:
        return os.fsencode(name) in file.read()


@contextmanager
def before_it_is_looked_at(watcher, does, then="cat", *as_whom):
    """The shell has done what fires, and executes something else, before the daemon reads of it."""
    file = script(does, f"exec {then} - /dev/null/{STRANGER}")
    watcher.process.send_signal(signal.SIGSTOP)
    try:
        with running(*as_whom, "sh", file, stdin=subprocess.PIPE) as process:
            until(lambda: executes(process, STRANGER), "it to execute another program")
            watcher.process.send_signal(signal.SIGCONT)
            yield process
    finally:
        watcher.process.send_signal(signal.SIGCONT)


@both
def test_what_it_executes_next_is_not_in_the_bundle(daemon, moment):
    rules, does = MOMENTS[moment]
    watcher = daemon(rules=rules)
    with before_it_is_looked_at(watcher, does) as process:
        incident = watcher.explained_incident(process.pid)
    assert STRANGER.encode() not in told_of_it(incident)
    assert "/cat" not in (incident.process["exe"] or "")
    for name in ("maps", "cmdline", "exe", "fds", "status"):
        assert not (incident.path / "process" / name).exists(), name
    assert [c for c in incident.quality["collectors"] if not c["ok"] and ANOTHER in c["error"]]
    shown = watcher.ctl.text("info", incident.id)
    assert ANOTHER in shown, shown


@both
def test_the_program_is_that_of_the_moment(daemon, moment):
    """What the kernel side has copied in the thread's own context is told."""
    rules, does = MOMENTS[moment]
    watcher = daemon(rules=rules)
    with before_it_is_looked_at(watcher, does) as process:
        incident = watcher.incident(process.pid)
    assert incident.process["exe"] == str(Path("/bin/sh").resolve())
    assert incident.triggers["registers"]["rip"]


@contextmanager
def while_it_is_loaded(directory, *does):
    """A shell that executes a program; it hangs between the two, and dies of it when the block ends."""
    with dead_mount(directory, victim("die")) as (program, fail):
        process = start("sh", script(*does, f"exec {program}"))
        exe = f"/proc/{process.pid}/exe"
        until(lambda: os.readlink(exe) == str(program), "it to execute another program")
        yield process, program
        fail()
        assert finish(process).status == -signal.SIGSEGV


@both
def test_one_that_is_being_loaded_is_not_in_the_bundle(daemon, moment, tmp_path):
    """execve(2) gives the process its next executable before it has a stack (fs/exec.c, begin_new_exec)."""
    rules, does = MOMENTS[moment]
    watcher = daemon(rules=rules)
    watcher.process.send_signal(signal.SIGSTOP)
    with while_it_is_loaded(tmp_path / "mount", does) as (process, program):
        watcher.process.send_signal(signal.SIGCONT)
        incident = watcher.incident(process.pid)
    assert os.fsencode(program) not in told_of_it(incident)
    for name in ("maps", "cmdline", "exe", "fds", "status"):
        assert not (incident.path / "process" / name).exists(), name


@pytest.mark.parametrize("known", [("new", "old"), ("new",)], ids=["both", "new"])
def test_who_dies_while_the_next_program_is_loaded_is_that_program(daemon, tmp_path, known):
    """What is executed can fail when there is nothing to return to: the kernel sends SIGSEGV then."""
    directory = tmp_path / "mount"
    executables = {"new": directory / "file", "old": Path("/bin/sh").resolve()}
    rules = "".join(
        f'[[rule]]\nname = "{name}"\non = "signal"\nmatch = {{ exe = ["{executables[name]}"] }}\n' for name in known
    )
    watcher = daemon(rules=rules)
    with while_it_is_loaded(directory) as (process, program):
        pass
    incident = watcher.incident(process.pid)
    assert incident.process["exe"] == str(program)
    assert incident.record["rule"] == "new"


def test_a_set_user_id_program_is_not_in_its_callers_bundle(daemon):
    program = shutil.copy("/usr/bin/cat", programs() / "set-uid")
    os.chmod(program, 0o4755)
    watcher = daemon(rules=SIGNALLED)
    as_eve = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups")
    with before_it_is_looked_at(watcher, MOMENTS["signal"][1], program, *as_eve) as process:
        incident = watcher.explained_incident(process.pid)
    assert incident.process["uid"] == EVE
    assert STRANGER.encode() not in told_of_it(incident)
    assert not (incident.path / "process" / "maps").exists()


def test_one_that_executes_another_is_not_made_to_dump(daemon):
    """The rule was about what it executed then."""
    watcher = daemon(rules=REFUSED + 'dump = "SIGABRT"\n', config="[safety]\nallow_dump = true\n")
    with before_it_is_looked_at(watcher, MOMENTS["syscall"][1]) as process:
        dump = watcher.incident(process.pid).record["dump"]
        assert dump["asked"] and not dump["sent"] and ANOTHER in dump["refused"]
        assert process.poll() is None


@pytest.mark.slow
def test_a_bundle_is_of_one_program_whenever_it_executes_the_next(daemon):
    """Executed while /proc is read, at every place: each file is of the first program, or not there."""
    watcher = daemon(rules=SIGNALLED, config=EACH_WHOLE + "[capture]\nanalyse = false\n")
    does = MOMENTS["signal"][1]
    for i in range(60):
        process = run("sh", script(does, *[":"] * (i * 7 % 60), f"exec cat - /dev/null/{STRANGER}"))
        incident = watcher.incident(process.pid)
        assert STRANGER.encode() not in told_of_it(incident)
        assert "/cat" not in (incident.process["exe"] or "")
        maps = incident.path / "process" / "maps"
        assert not maps.exists() or "/cat" not in maps.read_text()


@pytest.mark.slow
def test_threads_that_execute_while_another_crashes(daemon):
    """Either is first: the process has died of it, or is another program, and never something of both."""
    watcher = daemon(config=EACH_WHOLE + "[capture]\nanalyse = false\n")
    for _ in range(20):
        died = run(victim("thread_exec"), victim("die"), "null-read")
        incident = watcher.incident(died.pid)
        assert incident.process["exe"] == victim("die")
        maps = incident.path / "process" / "maps"
        assert not maps.exists() or b"thread_exec" not in maps.read_bytes()
