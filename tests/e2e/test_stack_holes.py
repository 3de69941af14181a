"""A frame's buffer that was never written to has no pages: the callers beyond it are captured all the same."""

import json
import subprocess

import pytest

from lib.compiled import compiled
from lib.victims import run, start

RULES = """
[[rule]]
name    = "death"
on      = "signal"
signals = ["SIGSEGV", "SIGABRT"]
match   = { comm = ["holes*"] }

[[rule]]
name      = "waits"
on        = "blocked"
threshold = "100ms"
when      = "deadline"
match     = { comm = ["looked*"] }
limit     = { cooldown = "1h", by = "process" }
"""
CHAIN = ["innermost", "middle", "outer"]


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    from lib.daemon import Daemon

    shared = Daemon(tmp_path_factory.mktemp("recorder"), rules=RULES).start()
    yield shared
    shared.stop()


def names(stack):
    return [frame["symbol"] for frame in stack["frames"] if frame["symbol"]]


def assert_whole(stack, outermost):
    found = names(stack)
    begin = found.index("innermost")
    assert found[begin : begin + 4] == [*CHAIN, outermost], stack
    assert stack["truncated"] is False, stack


@pytest.mark.parametrize("flags", ["-O0", "-O2"])
@pytest.mark.parametrize("size", [16 << 10, 512 << 10])
@pytest.mark.parametrize("who", ["main", "thread"])
def test_of_the_thread_that_crashed(watcher, who, size, flags):
    ended = run(compiled("holes.c", flags), str(size), who)
    stack = watcher.explained_incident(ended.pid).crashed["stack"]
    assert_whole(stack, "main" if who == "main" else "run")
    assert stack["bytes"] <= stack["wanted"]
    if who == "thread":
        assert stack["absent"] >= size, stack


@pytest.mark.parametrize("flags", ["-O0", "-O2"])
def test_of_the_stack_that_a_handler_has_interrupted(watcher, flags):
    """The handler runs on a stack of its own (sigaltstack): the one that matters is the other."""
    ended = run(compiled("holes.c", flags), str(16 << 10), "handler")
    incident = watcher.explained_incident(ended.pid)
    stack = incident.crashed["stack"]
    assert "on_fault" in names(stack)
    assert_whole(stack, "main")
    assert incident.record["verdict"]["sentence"].startswith("bad address: innermost() writes 4 bytes at 0x10")


def test_what_a_rule_wants_is_what_is_there(watcher):
    """Absent pages take nothing of the bytes that are wanted, and the index says where those that were there lie."""
    ended = run(compiled("holes.c", "-O2"), str(512 << 10), "thread")
    incident = watcher.explained_incident(ended.pid)
    stack = incident.crashed["stack"]
    pieces = [
        piece
        for piece in json.loads(incident.text("memory.json"))
        if piece["what"] == "stack" and piece["tid"] == incident.crashed["tid"]
    ]
    assert len(pieces) >= 2, pieces
    assert sum(piece["length"] for piece in pieces) == stack["bytes"]
    last = pieces[-1]
    reach = int(last["address"], 16) + last["length"] - int(pieces[0]["address"], 16)
    assert reach == stack["bytes"] + stack["absent"]


@pytest.mark.parametrize("flags", ["-O0", "-O2"])
def test_of_a_thread_beside_it(watcher, flags):
    process = start(compiled("holes.c", flags), str(40 << 10), "sibling", stdin=subprocess.PIPE)
    incident = watcher.explained_incident(process.pid)
    (other,) = (thread for thread in incident.threads if thread["tid"] != process.pid)
    assert_whole(other["stack"], "run")
    process.wait()


@pytest.mark.parametrize("size", [16 << 10, 512 << 10])
def test_of_a_thread_that_lives(watcher, tmp_path, size):
    """It is read from outside, where a read of an absent page makes zeros of it."""
    program = tmp_path / "looked-at"
    program.symlink_to(compiled("holes.c", "-O2"))
    process = start(str(program), str(size), "wait", stdin=subprocess.PIPE)
    incident = watcher.explained_incident(process.pid)
    assert_whole(incident.thread(process.pid)["stack"], "main")
    process.stdin.close()
    process.wait()


def test_a_buffer_too_large_to_look_beyond(watcher):
    ended = run(compiled("holes.c", "-O2"), str(16 << 20), "thread")
    stack = watcher.explained_incident(ended.pid).crashed["stack"]
    assert names(stack)[:1] == ["innermost"], stack
    assert "run" not in names(stack), stack
    assert stack["truncated"] is True
    assert "captured" in stack["reason"], stack
