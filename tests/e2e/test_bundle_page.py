"""incident-bundle(5) against real bundles: what they have stands there, and nothing else."""

import os
import re
import signal
from pathlib import Path

import pytest

from lib.daemon import Daemon
from lib.heap_victim import config, heap_victim, rule
from lib.victims import running, victim

PAGE = Path(__file__).resolve().parents[2] / "systemd/man/incident-bundle.5.scd"

# What only a rule with context.allocations adds: test_what_a_heap_adds has such a bundle.
HEAP_FILES, HEAP_KEYS = {"heap.json", "heap/"}, {"heap"}

RULES = """
[[rule]]
name = "death"
on = "signal"
signals = ["SIGKILL", "SIGSEGV"]
context = { environ = true }

[[rule]]
name = "status"
on = "exit"
status = 42
context = { environ = true }
"""

PROGRAM = """
import os, signal, sys, threading
os.close(os.open("/etc/hostname", os.O_RDONLY))
thread = threading.Thread(target=lambda: bytearray(8 << 20))
thread.start(); thread.join()
if sys.argv[1] == "exit":
    os._exit(42)
if sys.argv[1] == "crash":
    import ctypes; ctypes.string_at(0)
print("waits", flush=True); signal.pause()
"""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A crash, a death without a core, and a firing of a living process."""
    daemon = Daemon(tmp_path_factory.mktemp("bundles"), rules=RULES).start()
    found = []
    for how in ("crash", "kill", "exit"):
        with running("/usr/bin/python3", "-c", PROGRAM, how) as victim:
            if how == "kill":
                assert victim.stdout.readline().strip()
                os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
            found.append(daemon.explained_incident(victim.pid))
    yield found
    daemon.stop()


def section(title):
    """[(names in the head, text)] of a section's entries"""
    text = re.search(rf"^# {re.escape(title)}\n(.*?)(?=^# |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]
    return [(re.findall(r"\*([^*]+)\*", head), body) for head, body in re.findall(r"^(\*.*)\n((?:\t.*\n|\n(?=\t))+)", text, re.M)]


def names(title):
    return {name for heads, _ in section(title) for name in heads}


def words(body):
    return set(re.findall(r"(?<!\w)_([\w./]+)_(?!\w)", body))


def top_level(bundle):
    return {entry.name + ("/" if entry.is_dir() else "") for entry in bundle.path.iterdir()}


def test_files(bundles):
    listed = names("FILES")
    seen = set()
    for bundle in bundles:
        assert top_level(bundle) <= listed
        seen |= top_level(bundle)
    # a process in no cgroup of its own has none, and last words come later, where there is a journal
    assert listed - seen - HEAP_FILES <= {"cgroup/", "journal.jsonl"}
    assert not seen & HEAP_FILES


@pytest.mark.parametrize("directory", ["process/", "host/"])
def test_files_in_directories(bundles, directory):
    (listed,) = [words(body) for heads, body in section("FILES") if directory in heads]
    for bundle in bundles:
        if (bundle.path / directory).is_dir():
            present = {entry.name + ("/" if entry.is_dir() else "") for entry in (bundle.path / directory).iterdir()}
            assert present <= listed, directory


def test_keys_of_incident_json(bundles):
    listed = names("INCIDENT.JSON")
    seen = set()
    for bundle in bundles:
        assert set(bundle.record) <= listed
        seen |= set(bundle.record)
    # objects of other kinds of rules
    kinds = {"latency", "oom", "reclaim", "txg", "syscall", "blocked", "block_io", "tracepoint"}
    assert listed - seen == kinds | HEAP_KEYS


def keys_within(value):
    """Of a JSON object, and of those in it."""
    if isinstance(value, list):
        return set().union(*map(keys_within, value))
    return set(value).union(*map(keys_within, value.values())) if isinstance(value, dict) else set()


# in objects and lists of quality that are null or empty where nothing was amiss or known
MAY_BE_NULL = {"calls"}  # ended
MAY_BE_NULL |= {"from", "until", "pid", "stopped"}  # gap
MAY_BE_NULL |= {"state", "reason", "missed"}  # probes
MAY_BE_NULL |= {"t_ns", "total", "budget", "programs", "daemon"}  # cost
MAY_BE_NULL |= {"what", "since_ns"}  # degraded


@pytest.mark.parametrize("key", ["quality", "core", "dump", "thread", "versions", "alike"])
def test_keys_named_within_are_there(bundles, key):
    """Not all need be named."""
    (named,) = [words(body) for heads, body in section("INCIDENT.JSON") if heads == [key]]
    inside = MAY_BE_NULL if key == "quality" else set()
    for bundle in bundles:
        assert named - inside <= keys_within(bundle.record[key]), key


def test_keys_of_threads(bundles):
    for bundle in bundles:
        for thread in bundle.threads:
            assert set(thread) == names("THREADS.JSON")


def test_keys_of_the_timeline(bundles):
    listed = names("TIMELINE.JSONL")
    text = " ".join(body for heads, body in section("TIMELINE.JSONL") if heads == ["kind"])
    for bundle in bundles:
        for event in bundle.timeline:
            assert listed <= set(event)
            assert f"*{event['kind']}*" in text


def test_what_a_heap_adds(daemon):
    watcher = daemon(rules=rule(victim("heap"), "history"), config=config())
    with heap_victim("leak", 1000) as one:
        one.watched(watcher)
        one.go().until("done")
        one.die()
        bundle = watcher.explained_incident(one.pid)
    assert HEAP_FILES <= top_level(bundle) <= names("FILES")
    assert HEAP_KEYS <= set(bundle.record) <= names("INCIDENT.JSON")
    (files,) = [words(body) for heads, body in section("FILES") if "heap/" in heads]
    assert {entry.name for entry in (bundle.path / "heap").iterdir()} == {name for name in files if "/" not in name}
    (keys,) = [words(body) for heads, body in section("INCIDENT.JSON") if heads == ["heap"]]
    assert keys - {"heap.json"} <= set(bundle.record["heap"])
