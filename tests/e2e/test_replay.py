"""Edited rules on recorded incidents."""

import json

from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.victims import run

OPENS = """
[[rule]]
name    = "opens"
on      = "syscall"
syscall = "openat"
errno   = "ENOENT"
match   = { comm = ["trouble"] }
limit   = { cooldown = "1h", by = "process" }
"""


def replay(watcher, tmp_path, rules, *ids):
    directory = tmp_path / "edited"
    directory.mkdir(exist_ok=True)
    (directory / "edited.toml").write_text(rules)
    done = watcher.ctl.run("--json", "replay", *ids, "--rules", directory)
    assert done.returncode == 0, done.stderr
    return {line["id"]: {r["rule"]: r for r in line["rules"]} for line in map(json.loads, done.stdout.splitlines())}


def test_would_have_fired_or_not(daemon, tmp_path):
    watcher = daemon(rules=CRASH_RULE + OPENS)
    crash = watcher.incident(run(victim("die"), "null-read").pid)
    opens = watcher.incident(run(victim("trouble"), "open", "/no/such/file", "1").pid)
    same = replay(watcher, tmp_path, CRASH_RULE + OPENS)
    assert same[crash.id]["crash"]["verdict"] == "fire"
    assert same[crash.id]["opens"]["verdict"] == "no"
    assert same[opens.id]["opens"]["verdict"] == "fire"

    edited = replay(watcher, tmp_path, CRASH_RULE.replace('"SIGSEGV", ', "") + OPENS.replace("ENOENT", "EACCES"))
    assert edited[crash.id]["crash"]["verdict"] == "no"
    assert "SIGSEGV" in edited[crash.id]["crash"]["why"]
    assert edited[opens.id]["opens"]["verdict"] == "no"
    assert "errno" in edited[opens.id]["opens"]["why"]

    only = replay(watcher, tmp_path, OPENS, opens.id)
    assert list(only) == [opens.id]


def test_a_limit_holds_in_replay_too(daemon, tmp_path):
    watcher = daemon(rules=CRASH_RULE)
    first, second = (watcher.incident(run(victim("die"), "null-read").pid) for _ in range(2))
    answers = replay(watcher, tmp_path, CRASH_RULE + 'limit = { cooldown = "1h" }\n')
    assert answers[first.id]["crash"]["verdict"] == "fire"
    assert answers[second.id]["crash"]["verdict"] == "suppressed"


def test_a_tracepoints_record_is_tried_again(daemon, tmp_path):
    hit = '[[rule]]\nname = "hit"\non = "tracepoint"\ntracepoint = "task:task_rename"\nfilter = "newcomm == \'%s\'"\n'
    watcher = daemon(rules=hit % "quite-other")
    incident = watcher.incident(run(victim("trouble"), "rename", "quite-other").pid)
    assert replay(watcher, tmp_path, hit % "quite-other")[incident.id]["hit"]["verdict"] == "fire"
    answer = replay(watcher, tmp_path, hit % "another")[incident.id]["hit"]
    assert answer["verdict"] == "no" and "filter" in answer["why"]


def test_wrong_rules_are_shown(daemon, tmp_path):
    watcher = daemon(rules=CRASH_RULE)
    (tmp_path / "edited").mkdir()
    (tmp_path / "edited" / "wrong.toml").write_text('[[rule]]\nname = "x"\non = "signals"\n')
    done = watcher.ctl.run("replay", "--rules", tmp_path / "edited")
    assert done.returncode == 1
    assert "wrong.toml:3" in done.stderr
