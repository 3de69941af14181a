"""Programs whose runtime has its own ways: Go's without symbols, deleted, and ended by its runtime."""

import os
import shutil
import subprocess

import pytest

from lib.compiled import compiled
from lib.daemon import Daemon
from lib.kept import own, until_kept
from lib.victims import let_die, start

RULE = """
[[rule]]
name    = "crash"
on      = "signal"
signals = ["SIGSEGV", "SIGABRT"]
match   = { comm = ["runtimes*"] }
"""
STRIPPED = ("-ldflags=-s -w",)
WAYS = {"static": STRIPPED, "PIE": (*STRIPPED, "-buildmode=pie")}


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    shared = Daemon(tmp_path_factory.mktemp("recorder"), rules=RULE).start()
    yield shared
    shared.stop()


def crashed(watcher, program, shape, tmp_path, deleted=False):
    path = own(program, tmp_path, "runtimes-go")
    process = start(str(path), shape, "wait", stdin=subprocess.PIPE, env=os.environ | {"GOTRACEBACK": "crash"}, cwd=tmp_path)
    assert process.stdout.readline() == b"ready\n"
    if deleted:
        until_kept(watcher, path)
        path.unlink()
    let_die(process)
    return watcher.explained_incident(process.pid)


def frames(incident, which="main."):
    found = incident.crashed["stack"]["frames"]
    return [(frame["symbol"], os.path.basename(frame["file"] or ""), frame["line"]) for frame in found
            if (frame["symbol"] or "").startswith(which)]


@pytest.mark.parametrize("way", WAYS)
def test_a_stripped_go_program_is_named_like_one_with_symbols(watcher, tmp_path, way):
    (tmp_path / "whole").mkdir()
    whole = crashed(watcher, compiled("shapes.go", *WAYS[way][1:]), "index", tmp_path / "whole")
    stripped = crashed(watcher, compiled("shapes.go", *WAYS[way]), "index", tmp_path)
    names = [name for name, _, _ in frames(stripped)]
    assert names == ["main.index", "main.inner", "main.outer", "main.outer", "main.outer", "main.outer", "main.main"]
    assert frames(stripped) == frames(whole)
    assert frames(stripped, "runtime.") == frames(whole, "runtime.")
    assert stripped.crashed["stack"]["truncated"] is False, stripped.crashed["stack"]
    assert stripped.record["verdict"]["sentence"] == whole.record["verdict"]["sentence"]


@pytest.mark.parametrize("way", WAYS)
def test_a_stripped_go_program_that_is_deleted_has_its_names(watcher, tmp_path, way):
    incident = crashed(watcher, compiled("shapes.go", *WAYS[way]), "index", tmp_path, deleted=True)
    names = [name for name, _, _ in frames(incident)]
    assert names == ["main.index", "main.inner", "main.outer", "main.outer", "main.outer", "main.outer", "main.main"]
    assert incident.crashed["stack"]["truncated"] is False, incident.crashed["stack"]


@pytest.mark.parametrize("way", ("with symbols", "stripped"))
@pytest.mark.parametrize("kind, sentence", [
    ("deadlock", "Go's runtime gave up: all goroutines are asleep - deadlock!"),
    ("recurse", "Go's runtime gave up: stack overflow"),
    ("unlock", "Go's runtime gave up"),  # said on the goroutine's stack, which nobody keeps
])
def test_what_go_gave_up_for(watcher, tmp_path, kind, sentence, way):
    incident = crashed(watcher, compiled("fatal.go", *(STRIPPED if way == "stripped" else ())), kind, tmp_path)
    assert incident.record["verdict"]["sentence"] == sentence
    # Behind what changed the stacks nothing is told: there were the leftovers of others.
    if kind != "deadlock":  # which any thread may find
        stack = incident.crashed["stack"]
        assert stack["truncated"] is True
        assert "changes from one stack to another" in stack["reason"]
        assert frames(incident, "runtime.")[-1][0] in ("runtime.morestack", "runtime.systemstack")


@pytest.mark.parametrize("flags", [("-O1",), ("-O1", "-no-pie", "-fno-pie")], ids=("PIE", "not PIE"))
def test_code_that_is_mapped_twice_has_its_names_in_both_places(watcher, tmp_path, flags):
    path = own(compiled("runtimes_twice.c", *flags), tmp_path, "runtimes-twice")
    process = start(str(path), stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    let_die(process)
    incident = watcher.explained_incident(process.pid)
    stack = incident.crashed["stack"]
    assert [frame["symbol"] for frame in stack["frames"][:3]] == ["inner", "outer", "main"]
    assert stack["truncated"] is False, stack


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_nodes_stack_reaches_its_beginning(watcher, tmp_path):
    (tmp_path / "runtimes-node").symlink_to(shutil.which("node"))
    script = "console.log('ready'); require('fs').readSync(0, Buffer.alloc(1)); [1].map(() => process.abort())"
    process = start(str(tmp_path / "runtimes-node"), "-e", script, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    let_die(process)
    incident = watcher.explained_incident(process.pid)
    found = [frame["symbol"] for frame in incident.crashed["stack"]["frames"]]
    for name in ("node::Abort", "Builtins_ArrayMap", "Builtins_JSEntry", "node::Start", "_start"):
        assert name in found, found
