"""Crashes nobody has chosen: frames against gdb's of the full core, the verdict against what was planted.

A run takes the same few each time.  `pytest -s tests/e2e/test_differential.py --crashes 200 --seed N` draws others, and
prints the table and each that differs.
"""

import json
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass

import pytest

from lib import differential
from lib.backtrace import differences, gdb_crashed_frames
from lib.daemon import Daemon
from lib.kept import own, until_kept
from lib.victims import let_die, start

pytestmark = pytest.mark.usefixtures("coredump_host")

RULE = """
[[rule]]
name    = "crash"
on      = "signal"
signals = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGXCPU"]
match   = { comm = ["shapes*"] }
"""
TABLE = []


@dataclass
class Row:
    crash: differential.Crash
    frames: int
    differ: list
    outcome: str  # of the verdict: right, silent, wrong
    sentence: str


def pytest_generate_tests(metafunc):
    count, seed = (metafunc.config.getoption(option) for option in ("--crashes", "--seed"))
    crashes = differential.draw(count, seed)
    metafunc.parametrize("crash", crashes, ids=[str(crash) for crash in crashes])


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    shared = Daemon(tmp_path_factory.mktemp("recorder"), rules=RULE).start()
    yield shared
    shared.stop()
    print_table()


def print_table():
    if not TABLE:
        return
    print()
    for row in TABLE:
        if row.differ or row.outcome != "right":
            print(f"  {row.crash}: {row.outcome}: {row.sentence}")
        for place, ours, theirs in row.differ:
            print(f"    #{place} {ours} gdb: {theirs}")
    print_rows("all", TABLE)
    for what in ("compiler", "linked", "place"):
        for one in sorted({getattr(row.crash, what) for row in TABLE}):
            print_rows(one, [row for row in TABLE if getattr(row.crash, what) == one])


def print_rows(name, rows):
    told = Counter(row.outcome for row in rows)
    frames, wrong = sum(row.frames for row in rows), sum(len(row.differ) for row in rows)
    verdicts = ", ".join(f"{told[outcome]} {outcome}" for outcome in ("right", "silent", "wrong"))
    print(f"  {name:<13} {len(rows):4} crashes, {frames - wrong:5} of {frames:5} frames as gdb's, verdict {verdicts}")


def put(crash, program, directory):
    """Starts it where the crash wants it; returns the process, and where its file is, as long as it is."""
    environment = os.environ | {"GOTRACEBACK": "crash"}
    options = {"stdin": subprocess.PIPE, "env": environment, "cwd": directory}
    if crash.place == "container":
        root = directory / "root"
        root.mkdir()
        inside = differential.own_root(program, root)
        script = f"mount --bind {root} {root} && {crash.runs} chroot {root} {inside} {crash.shape} wait; exit $?"
        process = start("unshare", "--kill-child", "-m", "-p", "-f", "sh", "-c", script, **options)
        path = root / inside.lstrip("/")
    else:
        path = own(program, directory, "shapes")
        process = start(str(path), crash.shape, "wait", **options)
    assert process.stdout.readline() == b"ready\n"
    return process, path


def child_of(pid):
    return int(subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True).stdout.split()[0])


def take_away(crash, path):
    if crash.place == "deleted":
        path.unlink()
    elif crash.place == "replaced":
        shutil.copy("/bin/true", path.with_suffix(".new"))
        os.rename(path.with_suffix(".new"), path)


def died(crash, watcher, tmp_path):
    program = crash.program()
    process, path = put(crash, program, tmp_path)
    parent = child_of(process.pid) if crash.place == "container" and crash.runs != "exec" else process.pid
    if crash.place in ("deleted", "replaced"):
        until_kept(watcher, path)
        take_away(crash, path)
    try:
        let_die(process)
    finally:
        process.kill()  # one that does not die of what it does would go on for ever
        process.wait()
    if crash.place == "container":
        incident = watcher.incident_of_child(parent)
    else:
        incident = watcher.incident(process.pid)
    return program, incident.process["pid"]


def test_frames_are_gdbs_and_the_verdict_what_was_planted(watcher, tmp_path, crash):
    if crash.linked.startswith("32-bit") and not differential.narrow_programs_run():
        pytest.skip("this kernel executes no i386 programs")
    program, pid = died(crash, watcher, tmp_path)
    watcher.joined_incident(pid)
    incident = watcher.explained_incident(pid)
    core = tmp_path / "core"
    watcher.ctl.text("core", pid, "-o", core)
    theirs = gdb_crashed_frames(program, core, tmp_path / "frames.py")
    stack = incident.crashed["stack"]
    if crash.place in ("deleted", "replaced"):  # a copy has no debug information, which tells of inlined and tail calls
        stack["frames"] = [frame for frame in stack["frames"] if not frame["inline"] and frame["how"] != "tail call"]
        theirs = [frame for frame in theirs if not frame["inline"] and not frame["tail"]]
    differ = [one for one in differences(incident.crashed, theirs, program) if not differential.is_taste(*one[1:])]
    if crash.compiler == "go":  # gdb does not know Go's trampoline, and is lost behind it
        known = next((i for i, frame in enumerate(stack["frames"]) if frame["signal_frame"]), len(stack["frames"]))
        differ = [one for one in differ if one[0] < known]
    if crash.shape == "call-null" and crash.linked == "32-bit":  # gdb guesses a frame at 0, and is lost behind it
        differ = [one for one in differ if one[2] is not None or stack["truncated"]]
    verdict = incident.record["verdict"]
    sentence = verdict["sentence"] if verdict else None
    outcome = "silent" if not sentence else "right" if differential.says_what_was_planted(crash, sentence) else "wrong"
    frames = len(stack["frames"]) if stack["truncated"] else max(len(theirs), len(stack["frames"]))
    TABLE.append(Row(crash, frames, differ, outcome, sentence))
    told = {"how": stack["how"], "reason": stack["reason"], "differ": differ, "sentence": sentence}
    assert not differ and outcome != "wrong", json.dumps(told, indent=1, default=str)
