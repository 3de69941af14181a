"""[record] durations = false: calls are recorded when they return, at less than half the price."""

import pytest

from lib.compiled import compiled
from lib.daemon import CRASH_RULE
from lib.ledger import assert_each_call_is_accounted, ledger
from lib.programs import victim
from lib.victims import run, running
from lib.wait import until

WITHOUT = "[record]\ndurations = false\n"


@pytest.fixture(scope="module")
def returns():
    return compiled("returns.c", "-O1", "-no-pie")


@pytest.fixture(params=[True, False], ids=["durations", "no durations"])
def watcher(request, daemon):
    """What is recorded of a call besides its duration must not depend on whether that is measured."""
    return daemon(config="" if request.param else WITHOUT)


def died(watcher, *argv):
    ended = run(*argv)
    return watcher.incident(ended.pid).calls(ended.pid), watcher.incident(ended.pid), ended


def names(calls):
    return [call["name"] for call in calls]


def test_calls_have_no_duration_and_all_else(daemon, coredump_host):  # who waits for its dump can be looked at
    watcher = daemon(config=WITHOUT)
    calls, incident, ended = died(watcher, victim("opener"), "read:/etc/hostname", "read:/no/such/file")
    assert calls and not any(call["in_flight"] for call in calls)
    assert {call["duration_ns"] for call in calls} == {None}
    found, missed = incident.opens(ended.pid)[-2:]
    assert (found["path"], missed["path"]) == ("/etc/hostname", "/no/such/file")
    assert (found["ret"], missed["error"]) == (int(ended.lines[0]), "ENOENT")
    assert "O_RDONLY|O_CLOEXEC" in found["args"]
    assert incident.quality["incomplete_because"] == []
    times = [call["t_ns"] for call in calls]
    assert times == sorted(times)


def test_a_handler_returns_once(watcher, returns):
    calls, _, _ = died(watcher, returns, "signals", "7")
    assert names(calls).count("tgkill") == names(calls).count("rt_sigreturn") == 7
    assert calls[-1]["name"] == "rt_sigreturn"


def test_calls_of_the_32_bit_table(watcher, returns):
    if run(returns, "table").status != 0:
        pytest.skip("this kernel takes no calls of the 32-bit table (ia32_emulation)")
    calls, incident, _ = died(watcher, returns, "compat", "5")
    old = [call for call in calls if call.get("compat")]
    assert names(old) == ["getppid"] * 5 + ["fork"]
    assert {call["ret"] for call in old[:5]} == {incident.process["ppid"]}
    assert old[5]["ret"] > 0


def test_a_fork_returns_once_in_each(watcher, returns):
    """The child's return from the call that made it is no call of the child's."""
    calls, _, _ = died(watcher, returns, "forks", "4")
    made = [call for call in calls if call["name"] in ("fork", "vfork", "clone")]
    assert names(made) == ["fork", "vfork", "clone"] * 4
    assert all(call["ret"] > 0 for call in made)


def test_what_a_brk_added(watcher, returns):
    _, incident, ended = died(watcher, returns, "brk", "65536")
    breaks = [event for event in incident.memory_events(ended.pid) if event["name"] == "brk"]
    assert [event["memory"]["delta"] for event in breaks[-2:]] == [65536, 65536]


def test_an_exec_leaves_no_arguments(daemon, returns):
    watcher = daemon(config=WITHOUT)
    calls, incident, _ = died(watcher, returns, "exec")
    execs = [call for call in calls if call["name"] == "execve"]
    assert [call["ret"] for call in execs] == [0, 0]
    assert [call["args"] for call in execs] == [[], []]
    assert not any(loss["where"] == "paths" for loss in incident.quality["losses"])


@pytest.mark.parametrize("threads, calls", [(1, 20), (8, 400), (2, 100_000)])
def test_the_ledger(daemon, threads, calls):
    watcher = daemon(config="[record]\ndurations = false\n")
    pid, accounts = ledger(threads, calls, "blocked")
    assert_each_call_is_accounted(watcher.incident(pid), accounts)


@pytest.mark.parametrize("durations", [True, False])
def test_a_call_in_flight(daemon, returns, durations):
    """Without its entry it is known by the registers alone."""
    rule = '[[rule]]\nname = "told"\non = "signal"\nsignals = ["SIGUSR1"]\nfatal = false\n'
    watcher = daemon(rules=rule, config="" if durations else WITHOUT)
    with running(returns, "waits") as process:
        sleeper = int(process.stdout.readline())
        call = watcher.incident(process.pid).thread(sleeper)["syscall"]
    assert (call["name"], call["in_flight"]) == ("clock_nanosleep", True)
    assert call["from"] == ("ring" if durations else "registers")
    assert call["duration_ns"] is None
    assert ("elapsed_ns" in call) == durations


def test_a_rule_about_errors_counts_each_once(daemon):
    """Also where something else returns to user space without a call of the program's."""
    rule = """
[[rule]]
name   = "enoent"
on     = "syscall"
errno  = ["ENOENT"]
syscall = ["openat"]
match  = { comm = ["opener"] }
limit  = { cooldown = "1h" }
"""
    watcher = daemon(rules=CRASH_RULE + rule, config=WITHOUT)
    run(victim("opener"), *["read:/no/such/file"] * 9)
    # its death is behind them in the ring buffer
    until(lambda: any(one.record["kind"] == "signal" for one in watcher.incidents()), "the opener's death", watcher.tail)
    (found,) = [rule for rule in watcher.ctl.json("status")["rules"] if rule["name"] == "enoent"]
    assert found["matched"] == 9
    assert not watcher.ctl.json("status")["recorder"]["durations"]


def test_a_rule_about_slow_calls_has_them_measured(daemon):
    rule = '[[rule]]\nname = "slow"\non = "syscall"\nslower_than = "1s"\n'
    watcher = daemon(rules=CRASH_RULE + rule, config=WITHOUT)
    assert watcher.ctl.json("status")["recorder"]["durations"]
    calls, _, _ = died(watcher, victim("opener"), "read:/etc/hostname")
    assert calls[-1]["duration_ns"] is not None


def test_status_says_so(watcher):
    durations = watcher.ctl.json("status")["recorder"]["durations"]
    assert ("without durations" in watcher.ctl.run("status").stdout) == (not durations)
