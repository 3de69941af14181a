"""One user does all that may keep others' crashes from being recorded; every one of theirs is whole all the same."""

import signal
import subprocess

import pytest

from lib.compiled import compiled
from lib.programs import victim
from lib.users import as_user, open_to_all
from lib.victims import run
from lib.wait import PATIENCE, until

pytestmark = pytest.mark.slow

EVE, ALICE, BOB, ROOT = 12345, 12346, 12347, 0
OTHERS = (ALICE, BOB, ROOT)
SLEEPING = 5000  # threads; [record] threads is 4096


@pytest.fixture(name="public", scope="module")
def public_directory():
    with open_to_all(victim("die"), compiled("attacker.c")) as directory:
        yield directory


def rules(public, more=""):
    """A rule that knows a program by its path: a death whose executable is not known makes no incident."""
    return f"""
[[rule]]
name    = "crash"
on      = "signal"
signals = ["SIGSEGV", "SIGABRT"]
match   = {{ exe = ["{public}/*"] }}
{more}
"""


def attacked(public):
    """Eve's programs, once all of them are at work."""
    eve = subprocess.Popen(
        [*as_user(EVE), public / "attacker", str(SLEEPING), public / "die", "null-read"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert eve.stdout.readline() == b"ready\n"
    return eve


def end(eve):
    eve.stdin.close()
    assert eve.wait(timeout=PATIENCE) == -signal.SIGKILL
    eve.stdout.close()


def test_whatever_one_user_does_the_crashes_of_others_are_whole(daemon, public):
    watcher = daemon(rules=rules(public), config="[capture]\nanalyse = false\n")
    eve = attacked(public)
    try:
        until(lambda: watcher.ctl.json("status")["incidents"]["counted"] > 0, "her storm to be one", watcher.tail)
        died = [
            (uid, run(*as_user(uid), public / "die", kind))
            for _ in range(3)
            for kind in ("null-read", "abort")
            for uid in OTHERS
        ]
        for uid, ended in died:
            assert_whole(watcher.incident(ended.pid), uid, ended, public)
    finally:
        end(eve)


def assert_whole(incident, uid, ended, public):
    assert incident.process["uid"] == uid
    assert incident.process["exe"] == f"{public}/die"
    assert incident.record["rule"] == "crash"
    assert incident.signal["number"] == -ended.status
    assert not incident.record["alike"]["light"], incident.record["alike"]
    assert incident.crashed["registers"]["rip"]
    assert incident.crashed["stack"]["frames"], incident.quality
    assert incident.accounting(ended.pid)["recorded"] > 0, incident.quality
    assert incident.quality["threads_captured"] == incident.quality["threads"] == 1


def test_a_limit_that_one_user_has_used_up_holds_no_other_back(daemon, public):
    watcher = daemon(rules=rules(public, 'limit = { cooldown = "1h", by = "rule" }'))
    first = run(*as_user(EVE), public / "die", "null-read")
    watcher.incident(first.pid)
    for _ in range(3):
        run(*as_user(EVE), public / "die", "null-read")
    for uid in OTHERS:
        assert watcher.incident(run(*as_user(uid), public / "die", "null-read").pid).process["uid"] == uid
    assert watcher.ctl.json("status")["incidents"]["suppressed"] == 3


def test_replay_knows_whose_limit_it_is(daemon, public, tmp_path):
    watcher = daemon(rules=rules(public))
    died = [run(*as_user(uid), public / "die", "null-read").pid for uid in (EVE, EVE, ALICE, ROOT)]
    names = [watcher.incident(pid).id for pid in died]
    edited = tmp_path / "edited"
    edited.mkdir()
    (edited / "edited.toml").write_text(rules(public, 'limit = { cooldown = "1h", by = "exe" }'))
    lines = {line["id"]: line["rules"][0]["verdict"] for line in watcher.ctl.json_lines("replay", "--rules", edited)}
    assert [lines[name] for name in names] == ["fire", "suppressed", "fire", "fire"]


def test_the_quotas_of_a_storm_are_each_users_and_each_services(daemon, public):
    watcher = daemon(rules=rules(public), config='[storm]\nfull = 1\nlight = 0\nwindow = "1h"\n')
    watcher.incident(run(*as_user(EVE), public / "die", "null-read").pid)
    for _ in range(3):
        run(*as_user(EVE), public / "die", "null-read")
    for uid in OTHERS:
        incident = watcher.incident(run(*as_user(uid), public / "die", "null-read").pid)
        assert incident.record["alike"] == {"seen": 1, "only_counted": 0, "light": False}
    status = watcher.ctl.json("status")
    (line,) = status["signatures"]
    assert (line["seen"], line["full"], line["counted"]) == (7, 4, 3)
