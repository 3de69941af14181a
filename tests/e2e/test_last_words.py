"""What a unit and its process said before an incident and after it, in a real journal and in the file its errors go to."""

import json
import re
import subprocess
from types import SimpleNamespace

import pytest

from lib.cgroup import cgroup, inside
from lib.daemon import Daemon
from lib.journal import journal
from lib.victims import start
from lib.wait import PATIENCE, until

pytestmark = pytest.mark.usefixtures("coredump_host")

EVE = 12345
AS_EVE = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups")
UNIT = "incidentd-words.service"

RULES = """
[[rule]]
name = "crash"
on = "signal"
signals = ["SIGSEGV", "SIGABRT"]
match = {{ cgroup = "/system.slice/{unit}" }}
context = {{ logs = ["{logs}/*.log"] }}
"""
CONFIG = r"""
[privacy]
redact = ['password=\S+']
"""

# In the journal: its standard output.  In a file: its standard error.  It dies when it reads a line.
VICTIM = """
import ctypes, os, sys
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
os.write(2, b"first error\\n" * 8000 + b"last error, password=hunter2\\n")
for number in range(250):
    print("line", number)
print("with password=hunter2 in it")
sys.stdout.flush()
os.write(1, b"hostile \\x1b[31m \\xff \\0 end\\n")
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
ctypes.string_at(0)
"""


def in_unit(directory, *argv):
    """A process of the unit, whose output goes to the journal; a shell beside it tells of its end."""
    beside = '"$@"; echo "the shell has seen it end"'
    return start(
        *inside(directory, "systemd-cat", "-t", "shop", "sh", "-c", beside, "sh", *argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


def ready(tag):
    """The pid of the victim that said this last; the journal has all that it said before."""
    lines = [line for line in journal(f"_SYSTEMD_UNIT={UNIT}") if line.startswith(tag)]
    return int(lines[-1].split()[1]) if lines else None


def forge(message):
    """An entry of a stranger's with all that one can send."""
    fields = {
        "MESSAGE": message,
        "UNIT": UNIT,
        "_SYSTEMD_UNIT": UNIT,
        "OBJECT_SYSTEMD_UNIT": UNIT,
        "SYSLOG_IDENTIFIER": "shop",
        "PRIORITY": "3",
    }
    text = "".join(f"{name}={value}\n" for name, value in fields.items())
    subprocess.run([*AS_EVE, "logger", "--journald"], input=text, text=True, check=True, timeout=PATIENCE)
    until(lambda: journal(f"MESSAGE={message}"), "the stranger's entry")


def crash(directory, log):
    """The unit's process dies; returns its pid."""
    known = ready("ready")
    process = in_unit(directory, "/usr/bin/python3", "-c", VICTIM, str(log))
    pid = until(lambda: (now := ready("ready")) != known and now, "the victim's lines in the journal")
    forge(f"forged words {pid}")
    process.communicate(b"\n", timeout=PATIENCE)
    return pid


@pytest.fixture(name="unit", scope="module")
def unit_of_the_victims(coredump_host):
    with cgroup(f"system.slice/{UNIT}") as directory:
        yield directory


@pytest.fixture(name="two", scope="module")
def two_crashes(unit, tmp_path_factory):
    """The second of two crashes of the unit, when its last words are in."""
    directory = tmp_path_factory.mktemp("words")
    daemon = Daemon(directory, rules=RULES.format(unit=UNIT, logs=directory), config=CONFIG).start()
    first = crash(unit, directory / "err.log")
    daemon.joined_incident(first)
    second = crash(unit, directory / "err.log")
    incident = daemon.spoken_incident(second)
    words = [json.loads(line) for line in incident.text("journal.jsonl").splitlines()]
    yield SimpleNamespace(daemon=daemon, first=first, pid=second, incident=incident, words=words)
    daemon.stop()


def messages(two):
    return [word["message"] for word in two.words]


def test_the_lines_up_to_the_trigger(two):
    last = two.incident.record["last_words"]
    assert last["state"] == "read", last
    trigger = two.incident.record["clocks"]["trigger_ns"]
    before = [word for word in two.words if word["t_ns"] <= trigger]
    assert last["before"] == len(before) == 200
    assert last["more_before"]
    assert before[-1]["message"] == f"ready {two.pid}"
    assert (before[-1]["source"], before[-1]["pid"], before[-1]["identifier"]) == ("process", two.pid, "shop")
    assert "line 249" in messages(two)


def test_the_lines_after_it(two):
    trigger = two.incident.record["clocks"]["trigger_ns"]
    (after,) = [word for word in two.words if word["t_ns"] > trigger and "seen it end" in word["message"]]
    assert after["source"] == "unit"
    assert after["pid"] != two.pid
    assert after["t_ns"] <= trigger + 2_000_000_000


def test_a_hostile_line_does_no_harm(two):
    (hostile,) = [word for word in two.words if "hostile" in word["message"] and word["pid"] == two.pid]
    assert "\x1b" in hostile["message"]  # as it is: what shows it escapes it
    assert "\ufffd" in hostile["message"]
    shown = two.daemon.ctl.text("timeline", two.pid, "--kind", "log")
    assert "hostile" in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", shown)


def test_a_strangers_line_is_not_there(two):
    assert not [m for m in messages(two) if "forged" in m]
    assert "forged words" not in two.incident.text("timeline.jsonl")


def test_the_end_of_the_file_that_its_errors_go_to(two):
    text = two.incident.text("process/stderr")
    assert text.startswith("first error\n")
    assert text.endswith("last error, [redacted]\n")
    assert len(text) <= 64 * 1024
    assert not (two.incident.path / "process/stdout").exists()  # the journal has that


def test_nothing_redacted_is_anywhere(two):
    assert [m for m in messages(two) if "with [redacted] in it" in m]
    for name in ("journal.jsonl", "timeline.jsonl", "summary.txt", "process/stderr"):
        assert "hunter2" not in two.incident.text(name), name


def test_they_stand_in_the_timeline_at_their_times(two):
    times = [event["t_ns"] for event in two.incident.timeline]
    assert times == sorted(times)
    logged = [event["message"] for event in two.incident.events("log") if event["source"] != "kernel"]
    assert logged == messages(two)


def test_other_incidents_and_cores_of_the_unit_are_named(two):
    nearby = two.incident.record["nearby"]
    (other,) = [one for one in nearby["incidents"] if one["pid"] == two.first]
    assert other["signal"] == "SIGSEGV"
    assert other["id"] == two.daemon.incident(two.first).id
    assert two.first in [core["pid"] for core in nearby["cores"]]
    assert two.pid not in [core["pid"] for core in nearby["cores"]]
    assert nearby["problems"] == []


def test_info_shows_them(two):
    shown = two.daemon.ctl.text("info", two.pid)
    assert "last words" in shown
    assert f"shop[{two.pid}]: ready {two.pid}" in shown
    assert "the shell has seen it end" in shown
    assert "last error, [redacted]" in shown
    assert two.daemon.incident(two.first).id in shown


def test_the_keys_of_each_line(two):
    keys = "t_ns realtime_us source pid uid identifier priority transport message cut".split()
    assert all(list(word) == keys for word in two.words)


def test_an_end_of_the_daemon_loses_nothing_unsaid(unit, daemon, tmp_path):
    watcher = daemon(rules=RULES.format(unit=UNIT, logs=tmp_path))
    pid = crash(unit, tmp_path / "err.log")
    incident = watcher.incident(pid)
    watcher.stop()
    (incident,) = [one for one in watcher.incidents() if one.id == incident.id]
    last = incident.record["last_words"]
    assert last["state"] == "read", last
    said = [json.loads(line)["message"] for line in incident.text("journal.jsonl").splitlines()]
    assert f"ready {pid}" in said
    waited = last["until_ns"] - incident.record["clocks"]["trigger_ns"]
    assert waited == 2_000_000_000 or "incidentd ended" in last["losses"]
