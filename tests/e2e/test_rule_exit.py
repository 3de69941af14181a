"""Rules about how processes end."""

import re

from lib.programs import victim
from lib.victims import run


def rule(more, name="end", match='match = { comm = ["trouble", "die", "false", "true"] }'):
    return f'[[rule]]\nname = "{name}"\non = "exit"\n{more}\n{match}\nlimit = {{ cooldown = "1h", by = "process" }}\n'


def test_a_status(daemon):
    watcher = daemon(rules=rule("status = 42"))
    assert run(victim("trouble"), "exit", "41").status == 41
    ended = run(victim("trouble"), "exit", "42")
    incident = watcher.incident(ended.pid)
    assert incident.record["exit"]["status"] == 42
    assert len(watcher.incidents()) == 1
    thread = incident.thread(ended.pid)
    assert thread["stack"]["bytes"] >= 4096, "the stack that called exit()"
    assert not thread["crashed"]
    assert incident.record["core"]["reason"] == "the process exited"
    said = watcher.ctl.text("info", ended.pid)
    assert f"exited  trouble[{ended.pid}]" in said


def test_what_is_known_of_its_memory_begins_with_the_process(daemon):
    """Not with the machine: of one that lived for a moment nothing is said of an hour."""
    watcher = daemon(rules=rule("status = 42"))
    incident = watcher.incident(run(victim("trouble"), "exit", "42").pid)
    said = watcher.ctl.text("info", incident.process["pid"])
    assert re.search(r"address space \S+ \w+ in the last [\d.]+ (µs|ms|s):", said), said


def test_any_failure_by_default(daemon):
    watcher = daemon(rules=rule(""))
    assert run("true").status == 0
    ended = run("false")
    assert watcher.incident(ended.pid).record["exit"]["status"] == 1
    assert len(watcher.incidents()) == 1


def test_a_death_by_signal(daemon):
    watcher = daemon(rules=rule('signals = ["SIGSEGV"]\nstatus = 3'))
    ended = run(victim("die"), "null-read")
    incident = watcher.incident(ended.pid)
    assert incident.record["rule"] == "end"
    assert incident.signal["name"] == "SIGSEGV"
