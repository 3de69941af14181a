"""Rules about any tracepoint, with a filter over its fields."""

import signal
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import Daemon
from lib.programs import victim
from lib.victims import run
from lib.wait import until

TRACEPOINTS = Path("/sys/kernel/tracing/events")


def rule(tracepoint, filter_text, more="", name="hit"):
    text = f'[[rule]]\nname = "{name}"\non = "tracepoint"\ntracepoint = "{tracepoint}"\n'
    if filter_text:
        text += f"filter = '''{filter_text}'''\n"
    return text + f'{more}\nlimit = {{ cooldown = "1h", by = "process" }}\n'


@pytest.mark.parametrize("filter_text", ['newcomm == "quite-other"', 'newcomm ~ "quite*"', '(newcomm ~ "*-other" && pid > 1) || pid == 1'])
def test_a_filter_on_text(daemon, filter_text):
    watcher = daemon(rules=rule("task:task_rename", filter_text))
    run(victim("trouble"), "rename", "another")
    ended = run(victim("trouble"), "rename", "quite-other")
    incident = watcher.incident(ended.pid)
    hit = incident.record["tracepoint"]
    assert hit["tracepoint"] == "task:task_rename"
    assert "newcomm=quite-other" in hit["fields"].replace('"', "")
    assert len(watcher.incidents()) == 1
    assert incident.thread(ended.pid)["stack"]["bytes"] >= 4096


def test_a_filter_on_numbers(daemon):
    """A failed open again, seen by a tracepoint: signal_generate of SIGUSR1 to oneself."""
    watcher = daemon(rules=rule("signal:signal_generate", 'sig == 12 && comm == "sh"'))
    run("sh", "-c", "trap : USR1 USR2; kill -USR1 $$")
    ended = run("sh", "-c", "trap : USR1 USR2; kill -USR2 $$")
    incident = watcher.incident(ended.pid)
    assert "sig=12" in incident.record["tracepoint"]["fields"]
    assert len(watcher.incidents()) == 1


def test_several_rules_on_one_tracepoint(daemon):
    """One attachment serves all; each has its own filter and match, also at the exit, when what is matched is gone."""
    trouble = victim("trouble")
    own = f'match = {{ exe = ["{trouble}"] }}'
    watcher = daemon(rules=rule("task:task_rename", 'newcomm == "one"', name="one")
                     + rule("task:task_rename", 'newcomm == "two"', name="two")
                     + rule("task:task_rename", 'newcomm ~ "t*"', own.replace("trouble", "nothing"), name="not-ours")
                     + rule("sched:sched_process_exit", "", own, name="ends"))
    assert {one["state"] for one in watcher.ctl.json("status")["rules"]} == {"active"}
    for name in ("one", "two"):
        run(trouble, "rename", name)
    run("sleep", "0")
    ended = run(trouble, "rename", "else")

    def fired():
        return {one["name"]: one["fired"] for one in watcher.ctl.json("status")["rules"]}

    until(lambda: fired()["ends"] >= 3, "each process's end", watcher.tail)
    assert fired() == {"one": 1, "two": 1, "not-ours": 0, "ends": 3}
    end = watcher.incident(ended.pid)
    assert end.record["rule"] == "ends" and end.process["exe"] == str(trouble)
    assert any(event["name"] == "prctl" for event in end.timeline), "its last calls are kept"
    (watcher.rules / "test.toml").write_text(rule("task:task_rename", 'newcomm == "two"', name="three"))
    watcher.process.send_signal(signal.SIGHUP)
    until(lambda: "reloaded: 1 rules" in watcher.log.read_text(), "the reload", watcher.tail)
    third = run(trouble, "rename", "two")
    assert watcher.incident(third.pid).record["rule"] == "three"


def test_a_match_holds_at_the_exit(daemon):
    """What it is about is gone by then."""
    trouble = victim("trouble")
    watcher = daemon(rules=rule("sched:sched_process_exit", "", f'match = {{ exe = ["{trouble}"] }}'))
    run("sleep", "0")
    ended = run(trouble, "rename", "else")
    assert watcher.incident(ended.pid).process["exe"] == str(trouble)
    assert len(watcher.incidents()) == 1


def test_match_holds_for_tracepoints_too(daemon):
    watcher = daemon(rules=rule("task:task_rename", "", 'match = { exe = ["*/trouble"] }'))
    run("python3", "-c", "import ctypes; ctypes.CDLL(None).prctl(15, b'other', 0, 0, 0)")
    ended = run(victim("trouble"), "rename", "quite-other")
    watcher.incident(ended.pid)
    assert {i.process["pid"] for i in watcher.incidents()} == {ended.pid}


TWO = rule("task:task_rename", 'newcomm == "never"') + rule("signal:signal_deliver", "sig == 99", name="other")


def seen_through_perf():
    return run(compiled("counts.c"), (TRACEPOINTS / "task/task_rename/id").read_text().strip()).lines


def test_others_see_the_hits_too(daemon):
    daemon(rules=TWO)
    assert seen_through_perf() == ["3"]


def test_a_name_its_system_has_not_is_refused(tmp_path):
    checked = Daemon(tmp_path, rules=rule("sched:no_such_thing", "")).check()
    assert checked.returncode == 1
    assert "'sched' has no tracepoint 'no_such_thing'" in checked.stderr


def test_one_the_kernel_has_not_is_unavailable(daemon):
    watcher = daemon(rules=rule("nosuchmodule:thing", ""))
    (state,) = watcher.ctl.json("status")["rules"]
    assert state["state"] == "unavailable"
    assert "nosuchmodule:thing" in state["reason"]
    until(lambda: watcher.ctl.json("status")["uptime_s"] >= 3, "three seconds, in each of which it is looked for")
    assert watcher.log.read_text().count("rule hit is unavailable") == 1


def test_a_field_that_is_not_there_is_refused(tmp_path):
    checked = Daemon(tmp_path, rules=rule("task:task_rename", "newcom == 1")).check()
    assert checked.returncode == 1
    assert "newcom" in checked.stderr and "newcomm" in checked.stderr
