"""[cost] budget: what is too much is left out, said, and comes back; a crash is recorded all the while.

Waits look at the log: to ask the daemon each time would be a load of its own.  The budget is far above what other
programs on the machine make the recorder cost, and far below what the loads do.
"""

import re
import signal

import pytest

from lib.compiled import compiled
from lib.daemon import CRASH_RULE, SANITIZED
from lib.programs import victim
from lib.victims import run, running
from lib.wait import until

pytestmark = pytest.mark.skipif(SANITIZED, reason="what a daemon with sanitizers costs is not what incidentd costs")
BUDGET = '[cost]\nbudget = "4%"\nevery = "1s"\n'
UNDONE = "cost: as rules ask again: "


@pytest.fixture(scope="module")
def busy():
    return compiled("busy.c", "-O1")


def latency_rule(program):
    return (f'[[rule]]\nname = "hot"\non = "latency"\nprobe = "uprobe:{program}:busy_call"\nthreshold = "5s"\n'
            f'max_rate = 10000000\nmatch = {{ exe = ["{program}"] }}\n')


def said(watcher, pattern):
    return re.findall(pattern, watcher.log.read_text(errors="replace"))


def has_said(watcher, pattern, times=1):
    return until(lambda: len(said(watcher, pattern)) >= times, f"{times} × {pattern!r} in the log", watcher.tail)


def rule_of(watcher, name):
    (found,) = [rule for rule in watcher.ctl.json("status")["rules"] if rule["name"] == name]
    return found


def heap_of(watcher, pid):
    (found,) = [one for one in watcher.ctl.json("status")["heaps"]["processes"] if one["pid"] == pid]
    return found


def assert_captured(incident, *missing):
    """A fatal signal is never left out: at most /proc was gone before it was read."""
    assert incident.crashed["stack"]["bytes"] > 0 and incident.quality["threads_captured"] == 1
    expected = ("collector ", *missing)
    assert not [why for why in incident.quality["incomplete_because"] if not why.startswith(expected)]


def test_a_hot_probe_is_detached_and_comes_back(daemon, busy):
    watcher = daemon(rules=CRASH_RULE + latency_rule(busy), config=BUDGET)
    with running(busy, "calls") as load:
        has_said(watcher, r"cost: uprobe:\S+:busy_call detached: over the cost budget: ")
        rule = rule_of(watcher, "hot")
        assert rule["state"] == "unavailable" and rule["cost"] is None
        reason = r"over the cost budget: [\d.]+ % of a CPU at [\d,]+ calls a second, budget 4 %; tried again at \S+Z"
        assert re.fullmatch(r"detached since \S+Z, " + reason, rule["reason"])
        cost = watcher.ctl.json("status")["cost"]
        assert cost["budget"] == 0.04 and cost["measured"] and cost["daemon_rss_bytes"] > 0
        (step,) = [step for step in cost["steps"] if "busy_call" in step["what"]]
        assert re.fullmatch(reason, step["why"]) and step["since"]
        assert "busy_call detached" in watcher.ctl.text("status")

        ended = run(victim("die"), "null-read")
        incident = watcher.incident(ended.pid)
        quality = incident.quality
        assert_captured(incident)
        assert [step for step in quality["degraded"] if "busy_call detached" in step["what"]]
        assert quality["cost"]["budget"] == 0.04 and quality["cost"]["t_ns"] > 0

        load.send_signal(signal.SIGSTOP)
        has_said(watcher, UNDONE + r"\S+:busy_call")
        until(lambda: rule_of(watcher, "hot")["state"] == "active", "the probe to be back", watcher.tail)
        assert not [step for step in watcher.ctl.json("status")["cost"]["steps"] if "busy_call" in step["what"]]
        load.send_signal(signal.SIGCONT)
        has_said(watcher, r"cost: uprobe:\S+:busy_call detached", times=2)


def test_a_heap_goes_down_step_by_step_and_up_again(daemon, busy):
    rules = (f'[[rule]]\nname = "heap"\non = "signal"\nmatch = {{ exe = ["{busy}", "*/die"] }}\n'
             'context = { allocations = "history" }\n')
    watcher = daemon(rules=rules, config=BUDGET)
    has_said(watcher, 'at level "history" adds')
    with running(busy, "heap") as load:
        has_said(watcher, rf'cost: the heap of pid {load.pid} \(busy_O1\) is recorded at level "sizes"')
        has_said(watcher, rf"cost: allocations of pid {load.pid} \(busy_O1\) are not recorded: over the cost budget")
        heap = heap_of(watcher, load.pid)
        assert heap["level"] == "pages" and heap["reason"].startswith("over the cost budget: ")
        assert rule_of(watcher, "heap")["state"] == "degraded"

        ended = run(victim("die"), "null-read")
        incident = watcher.incident(ended.pid)
        assert_captured(incident, "heap: not recorded")  # it dies before its heap is instrumented
        assert not incident.quality["degraded"], "that is another's"

        load.send_signal(signal.SIGSTOP)
        has_said(watcher, UNDONE + rf"pid {load.pid}", times=2)
        until(lambda: heap_of(watcher, load.pid)["level"] == "history", "all of it to be recorded again", watcher.tail)
        until(lambda: rule_of(watcher, "heap")["state"] == "active", "the rule to be whole", watcher.tail)
        undone = said(watcher, UNDONE + r"[^\n]*")
        assert len(undone) >= 2

        load.send_signal(signal.SIGCONT)
        load.send_signal(signal.SIGABRT)
        heap = watcher.incident(load.pid).record["heap"]
        assert heap["asked"] == "history"


def test_what_a_process_lost_stands_in_its_bundle(daemon, busy):
    rules = (f'[[rule]]\nname = "heap"\non = "signal"\nmatch = {{ exe = ["{busy}"] }}\n'
             'context = { allocations = "history" }\n')
    watcher = daemon(rules=rules, config=BUDGET)
    with running(busy, "heap") as load:
        has_said(watcher, rf"cost: allocations of pid {load.pid} \(busy_O1\) are not recorded")
        load.send_signal(signal.SIGABRT)
        degraded = [step["what"] for step in watcher.incident(load.pid).quality["degraded"]]
        assert f"allocations of pid {load.pid} (busy_O1) are not recorded" in degraded and len(degraded) >= 2


def test_of_two_tracepoints_the_hot_one_is_detached(daemon):
    """They share a program in the kernel; what each takes of it goes by its own hits."""
    rules = "".join(f'[[rule]]\nname = "{name}"\non = "tracepoint"\ntracepoint = "{place}"\nfilter = "{never}"\n'
                    for name, place, never in (("hot", "raw_syscalls:sys_enter", "id == -7"),
                                               ("cool", "sched:sched_process_exec", "pid == -7")))
    watcher = daemon(rules=CRASH_RULE + rules, config=BUDGET)
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1") as load:
        has_said(watcher, "cost: tracepoint raw_syscalls:sys_enter of rule hot detached: over the cost budget")
        assert rule_of(watcher, "hot")["state"] == "unavailable"
        assert "of a CPU at" in rule_of(watcher, "hot")["reason"]
        assert rule_of(watcher, "cool")["state"] == rule_of(watcher, "crash")["state"] == "active"
        load.send_signal(signal.SIGSTOP)
        has_said(watcher, UNDONE + "tracepoint raw_syscalls:sys_enter")
        until(lambda: rule_of(watcher, "hot")["state"] == "active", "the tracepoint to be back", watcher.tail)


def test_a_probe_above_its_own_rate_is_off_and_says_until_when(daemon, busy):
    """Whatever the budget is."""
    watcher = daemon(rules=latency_rule(busy).replace("max_rate = 10000000", "max_rate = 1000"))
    with running(busy, "calls"):
        until(lambda: "max_rate" in rule_of(watcher, "hot")["reason"], "the probe to be detached", watcher.tail)
        (line,) = said(watcher, r"detached: .* above max_rate.*")
        assert "tried again every" in line
        rule = rule_of(watcher, "hot")
        assert rule["state"] == "unavailable"
        assert re.search(r"is above max_rate = 1000; since \S+Z, tried again at \S+Z", rule["reason"]), rule


def test_a_rule_that_does_nothing_has_no_cost(daemon):
    """Neither its own nor that of another rule, of the same kind."""
    rules = "".join(f'[[rule]]\nname = "{name}"\non = "tracepoint"\ntracepoint = "{where}"\n{more}'
                    for name, where, more in (("hot", "sched:sched_switch", "filter = 'prev_pid == 1000000000'\n"),
                                              ("absent", "nosuchmodule:thing", "")))
    watcher = daemon(rules=rules, config='[cost]\nbudget = "90%"\nevery = "1s"\n')
    until(lambda: rule_of(watcher, "hot")["cost"], "the cost to be measured", watcher.tail)
    assert rule_of(watcher, "absent")["state"] == "unavailable"
    assert rule_of(watcher, "absent")["cost"] is None


def reload(watcher, rules, times):
    (watcher.rules / "test.toml").write_text(rules)
    watcher.process.send_signal(signal.SIGHUP)
    has_said(watcher, "reloaded: ", times)


def test_a_hot_rule_is_off_and_says_so_over_reloads_until_it_comes_back(daemon):
    hot = '[[rule]]\nname = "hot"\non = "syscall"\nsyscall = "read"\nerrno = ["EIO"]\n'
    slow = ('[[rule]]\nname = "slow"\non = "syscall"\nsyscall = "clock_nanosleep"\nslower_than = "20ms"\n'
            'match = { exe = ["*/sleep"] }\n')
    watcher = daemon(rules=CRASH_RULE + hot + slow, config=BUDGET)
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1") as load:
        has_said(watcher, "cost: programs of syscall rule.* detached: over the cost budget")
        assert rule_of(watcher, "hot")["state"] == "unavailable", "it does nothing"
        assert rule_of(watcher, "slow")["state"] == "active", "the same programs serve it, and it costs next to nothing"
        slept = run("sleep", "0.05")
        assert watcher.incident(slept.pid).record["rule"] == "slow"
        ended = run(victim("die"), "null-read")
        assert_captured(watcher.incident(ended.pid))

        reload(watcher, CRASH_RULE + hot + slow + hot.replace("hot", "later").replace("read", "pread64"), 1)
        assert rule_of(watcher, "hot")["state"] == "unavailable", "nothing has changed for it"
        reload(watcher, CRASH_RULE + hot.replace("hot", "renamed"), 2)
        assert rule_of(watcher, "renamed")["state"] == "active", "it is tried anew"
        has_said(watcher, "cost: programs of syscall rule renamed detached: over the cost budget")
        assert rule_of(watcher, "renamed")["state"] == "unavailable"
        load.send_signal(signal.SIGSTOP)
        has_said(watcher, UNDONE + "programs of syscall rule renamed")
        until(lambda: rule_of(watcher, "renamed")["state"] == "active", "the rule to be whole", watcher.tail)


def test_what_is_active_after_a_reload_fires(daemon):
    """Whatever was detached for its cost before, of rules that are no more."""
    hot = '[[rule]]\nname = "hot"\non = "syscall"\nsyscall = "read"\nerrno = ["EIO"]\n'
    slow = ('[[rule]]\nname = "slow"\non = "syscall"\nsyscall = "clock_nanosleep"\nslower_than = "20ms"\n'
            'match = { exe = ["*/sleep"] }\n')
    watcher = daemon(rules=hot, config=BUDGET)
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1"):
        has_said(watcher, "cost: programs of syscall rule.* detached: over the cost budget")
        reload(watcher, slow, 1)
        assert rule_of(watcher, "slow")["state"] == "active"
        slept = run("sleep", "0.05")
        assert watcher.incident(slept.pid).record["rule"] == "slow"


def test_a_narrow_rule_is_not_off_for_what_strangers_do(daemon):
    """Its program runs at every call of the machine; what that takes is said, and is not the rule's."""
    slow = ('[[rule]]\nname = "slow"\non = "syscall"\nsyscall = "clock_nanosleep"\nslower_than = "20ms"\n'
            'match = { exe = ["*/sleep"] }\n')
    watcher = daemon(rules=slow, config='[cost]\nbudget = "0.5%"\nevery = "1s"\n')
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1"):
        has_said(watcher, "cost: ")
        assert rule_of(watcher, "slow")["state"] == "active"
        has_said(watcher, "cost: recording alone takes .* of a CPU go to .* calls a second of processes no rule is about")
        cost = watcher.ctl.json("status")["cost"]
        assert cost["strangers"]["cpu_share"] > cost["budget"], "more than would take a rule of its own off"
        state = rule_of(watcher, "slow")
        assert state["state"] == "active" and state["cost"]["cpu_share"] < cost["budget"]
        slept = run("sleep", "0.05")
        assert watcher.incident(slept.pid).record["rule"] == "slow"
        assert not said(watcher, "rule slow detached")


def test_without_a_budget_it_is_only_measured(daemon, busy):
    watcher = daemon(rules=latency_rule(busy), config='[cost]\nbudget = "off"\nevery = "1s"\n')
    with running(busy, "calls"):
        # so much in a measurement made under that load
        until(lambda: (rule_of(watcher, "hot")["cost"] or {"cpu_share": 0})["cpu_share"] > 0.04, "it to be measured",
              watcher.tail)
        # the programs, and the kernel's way into and out of two probes: one at the entry, one at the return
        ((entry, back),) = said(watcher, r"a probe adds (\d+) ns to a call, a return probe (\d+) ns")
        assert int(entry) > 0 and int(back) > 0
        assert rule_of(watcher, "hot")["cost"]["ns_per_event"] > int(entry) + int(back)
        status = watcher.ctl.json("status")
        assert status["cost"]["budget"] is None and status["cost"]["steps"] == []
        assert rule_of(watcher, "hot")["state"] == "active"
        assert "no budget" in watcher.ctl.text("status")


def test_recording_alone_over_the_budget_is_said_with_what_helps(daemon):
    """No rule has probes: only the recording of a program that does nothing but system calls."""
    config = '[cost]\nbudget = "0.01%"\nevery = "1s"\n'
    rules = '[[rule]]\nname = "crash"\non = "signal"\n'
    watcher = daemon(rules=rules, config=config)
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1") as load:
        has_said(watcher, rf"cost: durations of system calls of pid {load.pid} \(dd\) are not measured: over the cost budget")
        has_said(watcher, "cost: recording alone takes .* narrow the rules' match, .*or raise")
        cost = watcher.ctl.json("status")["cost"]
        assert "recording alone takes" in cost["advice"]
        first = cost["costliest"][0]
        assert first["pid"] == load.pid and first["comm"] == "dd" and first["durations"] is False
        text = watcher.ctl.text("status")
        assert "narrow the rules' match" in text and re.search(rf"of pid {load.pid} \(dd\), without durations", text)
        ended = run(victim("die"), "null-read")
        assert_captured(watcher.incident(ended.pid))


def test_what_is_over_the_budget_is_measured_again_soon(daemon):
    """Two measurements in a row must say so, and the usual next one would be an hour away."""
    watcher = daemon(rules=CRASH_RULE, config='[cost]\nbudget = "4%"\nevery = "1h"\n')
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1") as load:
        has_said(watcher, rf"cost: durations of system calls of pid {load.pid} \(dd\) are not measured")


def calls_of(incident, name):
    return [line for line in incident.timeline if line.get("kind") == "syscall" and line.get("name") == name]


def test_who_is_busy_pays_and_nobody_else(daemon):
    """What a stranger's calls cost takes nothing from a quiet program; the busy one's bundle says what it lost."""
    watcher = daemon(rules='[[rule]]\nname = "crash"\non = "signal"\n', config=BUDGET)
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1") as load, \
            running("sh", "-c", "while :; do sleep 0.05; done") as quiet:
        has_said(watcher, rf"cost: durations of system calls of pid {load.pid} \(dd\) are not measured")
        assert watcher.ctl.json("status")["recorder"]["durations"], "those of others are"
        quiet.send_signal(signal.SIGABRT)
        calls = calls_of(watcher.incident(quiet.pid), "wait4")
        assert calls and all(call["duration_ns"] is not None for call in calls)
        load.send_signal(signal.SIGABRT)
        incident = watcher.incident(load.pid)
        calls = calls_of(incident, "read") + calls_of(incident, "write")
        assert len(calls) > 100 and not [call for call in calls if call["duration_ns"] is not None]
        assert [step for step in incident.quality["degraded"] if f"of pid {load.pid} (dd)" in step["what"]]
    until(lambda: not watcher.ctl.json("status")["cost"]["steps"], "the process that is gone to be forgotten", watcher.tail)


def calls_made(process):
    """Of read, as the kernel counts them."""
    (line,) = [line for line in open(f"/proc/{process.pid}/io", encoding="ascii") if line.startswith("syscr:")]
    return int(line.split()[1])


def test_durations_come_back_when_the_process_is_idle(daemon):
    watcher = daemon(rules='[[rule]]\nname = "crash"\non = "signal"\n', config=BUDGET)
    with running("dd", "if=/dev/zero", "of=/dev/null", "bs=1") as load:
        has_said(watcher, rf"cost: durations of system calls of pid {load.pid} \(dd\) are not measured")
        load.send_signal(signal.SIGSTOP)
        has_said(watcher, UNDONE + rf"durations of system calls of pid {load.pid}")
        before = calls_made(load)
        load.send_signal(signal.SIGCONT)
        until(lambda: calls_made(load) > before + 1000, "it to make calls", watcher.tail)
        load.send_signal(signal.SIGABRT)
        calls = calls_of(watcher.incident(load.pid), "read")
        assert calls[-1]["duration_ns"] is not None
