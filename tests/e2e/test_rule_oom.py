"""The OOM killer's victims, of a memory cgroup."""

import signal

import pytest

from lib.cgroup import inside, limited_memory
from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.victims import run

RULE = '[[rule]]\nname = "oom"\non = "oom"\nmatch = { comm = ["trouble"] }\n'
LIMIT = 48 << 20


def test_a_multithreaded_victim(daemon):
    watcher = daemon(rules=RULE + CRASH_RULE)
    with limited_memory("incidentd-test-oom", LIMIT) as group:
        died = run(*inside(group, victim("trouble"), "threads", "5", "200"))
        assert died.status == -signal.SIGKILL
        incident = watcher.incident(died.pid)
    assert incident.record["kind"] == "oom"
    assert incident.record["rule"] == "oom"
    oom = incident.record["oom"]
    assert oom["allocating"]["pid"] == died.pid, "it asked for the memory itself"
    assert oom["memory"]["before"]["memory.limit_in_bytes"] == str(LIMIT)
    assert "memory.usage_in_bytes" in oom["memory"]["after"]
    assert "memory.usage_in_bytes" in oom["memory"]["before"], "by then the victim may have given back most of it"
    assert oom["memory_max"] == LIMIT
    assert LIMIT * 9 // 10 < oom["memory_current"] <= LIMIT, "as the kernel counted when it chose"
    assert len(incident.threads) == 6
    for thread in incident.threads:
        assert thread["registers"]["rip"] != "0x0"
        assert thread["stack"]["bytes"] > 0
    others = [thread for thread in incident.threads if thread["tid"] != died.pid]
    assert all(thread["syscall"]["name"] == "futex" for thread in others)
    assert incident.quality["threads"] == incident.quality["threads_captured"] == 6
    assert incident.quality["lost"] == 0
    assert "OOM killer" in incident.record["summary"]
    assert len(watcher.incidents()) == 1


KILLED = '[[rule]]\nname = "killed"\non = "signal"\nsignals = ["SIGKILL"]\nmatch = { comm = ["trouble"] }\n'


@pytest.mark.parametrize("rules", [KILLED + RULE, KILLED])
def test_a_rule_about_sigkill_that_fires_first(daemon, rules):
    """Whether another rule is about the OOM killer or not: one bundle, which says whose SIGKILL it was."""
    watcher = daemon(rules=rules)
    with limited_memory("incidentd-test-oom", LIMIT) as group:
        died = run(*inside(group, victim("trouble"), "threads", "5", "200"))
        incident = watcher.explained_incident(died.pid)
    assert (incident.record["rule"], incident.record["kind"]) == ("killed", "oom")
    assert incident.record["fired_too"] == (["oom"] if RULE in rules else [])
    assert incident.record["verdict"]["sentence"].startswith("out of memory: cgroup ")
    assert len(watcher.incidents()) == 1


def test_a_plain_sigkill_is_none(daemon):
    watcher = daemon(rules=RULE + '[[rule]]\nname = "mark"\non = "exit"\nstatus = 9\nmatch = { comm = ["trouble"] }\n')
    run("timeout", "-s", "KILL", "0.2", victim("trouble"), "pipe", "60000")
    marked = run(victim("trouble"), "exit", "9")
    watcher.incident(marked.pid)
    assert len(watcher.incidents()) == 1
