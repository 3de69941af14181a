"""Rules changed while the daemon runs."""

import signal

import pytest

from lib import callers
from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.victims import READ, let_die, run, until_in, waiting_victim
from lib.wait import until

ALLOW = "[safety]\nallow_dump = true\n"

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


def slow_read(comm):
    return (
        f'[[rule]]\nname = "slow-read"\non = "syscall"\nsyscall = "read"\nslower_than = "1us"\nmatch = {{ comm = ["{comm}"] }}\n'
    )


def test_a_call_that_began_while_no_rule_was_about_its_process_is_not_judged(daemon):
    watcher = daemon(rules=slow_read("nobody"), config='[log]\nlevel = "debug"\n')
    with callers.told("reader") as process:
        until(
            lambda: callers.tell(process, "x") and f"watch reader pid {process.pid}" in watcher.log.read_text(),
            "the daemon to decide about it",
            watcher.tail,
        )
        watcher.ctl.json("status")  # what it has decided is known to the kernel side before it answers
        assert callers.tell(process, "xx")
        until_in(process, READ)  # this one begins without being recorded
        reload(watcher, slow_read("reader"), "reloaded: 1 rules")
        assert callers.tell(process, "x")  # ends that one
        until_in(process, READ)  # it waits, and so it lasts
        assert callers.tell(process, "x")  # one that began afterwards
        watcher.incident(process.pid)
        assert rules(watcher)["slow-read"]["matched"] == 1


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


def reading(name, slower_than, dump=True, match="comm"):
    value = victim("callers") if match == "exe" else name
    return (
        f'[[rule]]\nname = "{name}"\non = "syscall"\nsyscall = ["read"]\nslower_than = "{slower_than}"\n'
        f'match = {{ {match} = ["{value}"] }}\n' + ('dump = "SIGABRT"\n' if dump else "")
    )


@pytest.mark.parametrize(
    "before, after",
    [
        # its own rule goes, and another's takes the place
        (reading("own", "1h", match="exe") + reading("nobody", "1ms"), reading("nobody", "1ms")),
        # its rule would not dump it, and changes places with one that would dump somebody else
        (reading("own", "1h", dump=False, match="exe") + reading("nobody", "1ms"), reading("nobody", "1ms") + reading("own", "1h", dump=False, match="exe")),
        # its rule is from now on about somebody else
        (reading("own", "1ms", match="exe"), reading("own", "1ms")),
    ],
    ids=["removed", "reordered", "changed"],
)
def test_a_call_that_was_under_way_is_judged_by_the_rules_of_now(daemon, coredump_host, before, after):
    watcher = daemon(rules=before, config=ALLOW)
    process = callers.start("3", "caller")
    try:
        assert process.stdout.read(1) == b"r"
        reload(watcher, after, "reloaded: ")
        for _ in range(2):
            process.stdin.write(b"xxx")
        assert callers.end(process) == 0, watcher.tail()
        assert watcher.incidents() == []
    finally:
        process.kill()


def has_died_of_a_call(process):
    """Another one of its calls returns, which has lasted since the last one did."""
    try:
        process.stdin.write(b"x")
    except BrokenPipeError:
        pass
    return process.poll() is not None


def test_of_a_rule_that_stays_what_it_was_nothing_is_missed(daemon, coredump_host):
    """Though it has another place now, and the call began before."""
    own = reading("own", "1ms", match="exe")
    watcher = daemon(rules=own, config=ALLOW)
    process = callers.start("1", "caller")
    try:
        assert process.stdout.read(1) == b"r"
        reload(watcher, reading("nobody", "1ms") + own, "reloaded: 2 rules")
        until(lambda: has_died_of_a_call(process), "the process to be dumped", watcher.tail)
        assert process.returncode == -signal.SIGABRT
        made = until(lambda: [i for i in watcher.incidents() if i.record["dump"]["sent"]], "its incident", watcher.tail)
        assert {(i.process["pid"], i.record["rule"]) for i in made} == {(process.pid, "own")}
    finally:
        process.kill()
