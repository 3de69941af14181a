"""Rules about any tracepoint, with a filter over its fields."""

import pytest

from lib.daemon import Daemon
from lib.programs import victim
from lib.victims import run


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


def test_match_holds_for_tracepoints_too(daemon):
    watcher = daemon(rules=rule("task:task_rename", "", 'match = { exe = ["*/trouble"] }'))
    run("python3", "-c", "import ctypes; ctypes.CDLL(None).prctl(15, b'other', 0, 0, 0)")
    ended = run(victim("trouble"), "rename", "quite-other")
    watcher.incident(ended.pid)
    assert {i.process["pid"] for i in watcher.incidents()} == {ended.pid}


def test_a_name_its_system_has_not_is_refused(tmp_path):
    checked = Daemon(tmp_path, rules=rule("sched:no_such_thing", "")).check()
    assert checked.returncode == 1
    assert "'sched' has no tracepoint 'no_such_thing'" in checked.stderr


def test_one_the_kernel_has_not_is_unavailable(daemon):
    watcher = daemon(rules=rule("nosuchmodule:thing", ""))
    (state,) = watcher.ctl.json("status")["rules"]
    assert state["state"] == "unavailable"
    assert "nosuchmodule:thing" in state["reason"]


def test_a_field_that_is_not_there_is_refused(tmp_path):
    checked = Daemon(tmp_path, rules=rule("task:task_rename", "newcom == 1")).check()
    assert checked.returncode == 1
    assert "newcom" in checked.stderr and "newcomm" in checked.stderr
