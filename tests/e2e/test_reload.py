"""Rules changed while the daemon runs."""

import signal

from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.victims import let_die, run, waiting_victim
from lib.wait import until

OPENS = """
[[rule]]
name    = "opens"
on      = "syscall"
syscall = "openat"
errno   = "ENOENT"
match   = { comm = ["trouble"] }
limit   = { cooldown = "1h", by = "process" }
"""


def rules(watcher):
    return {r["name"]: r for r in watcher.ctl.json("status")["rules"]}


def reload(watcher, text, expect):
    (watcher.rules / "test.toml").write_text(text)
    watcher.process.send_signal(signal.SIGHUP)
    until(lambda: expect in watcher.log.read_text(), f"'{expect}' in the log", watcher.tail)


def test_a_broken_file_changes_nothing(daemon):
    watcher = daemon(rules=CRASH_RULE + OPENS)
    first = run(victim("trouble"), "open", "/no/such/file", "1")
    watcher.incident(first.pid)
    reload(watcher, CRASH_RULE + OPENS.replace("openat", "openatt"), "stay as they were")
    assert set(rules(watcher)) == {"crash", "opens"}
    assert rules(watcher)["opens"]["fired"] == 1
    assert any("openatt" in error for error in watcher.ctl.json("status")["rule_errors"])
    second = run(victim("trouble"), "open", "/no/such/file", "1")
    assert watcher.incident(second.pid).record["rule"] == "opens"


def test_kinds_come_and_go(daemon):
    watcher = daemon(rules=CRASH_RULE)
    reload(watcher, CRASH_RULE + OPENS, "reloaded: 2 rules")
    probes = {p["name"] for p in watcher.ctl.json("status")["probes"]}
    fired = run(victim("trouble"), "open", "/no/such/file", "1")
    watcher.incident(fired.pid)
    reload(watcher, CRASH_RULE, "reloaded: 1 rules")
    assert len(watcher.ctl.json("status")["probes"]) < len(probes) + 1
    run(victim("trouble"), "open", "/no/such/file", "1")
    crash = run(victim("die"), "null-read")
    watcher.incident(crash.pid)
    assert len(watcher.incidents()) == 2


def test_recording_goes_on_over_a_reload(daemon):
    """A process that lives through it has its calls from before it."""
    watcher = daemon(rules=CRASH_RULE)
    with waiting_victim("null-read") as process:
        reload(watcher, CRASH_RULE + OPENS, "reloaded: 2 rules")
        let_die(process)
    incident = watcher.incident(process.pid)
    account = incident.accounting(process.pid)
    assert account["since_birth"] and account["lost"] == 0
    assert "execve" in [call["name"] for call in incident.calls(process.pid)]
