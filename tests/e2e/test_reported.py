"""Each incident is told of: in the journal, and to a hook; what one daemon could not tell the next one does."""

import json
import subprocess

import pytest

from lib.programs import victim
from lib.victims import run
from lib.wait import until

pytestmark = pytest.mark.usefixtures("coredump_host")

MESSAGE_ID = "0b1ca4f5d0f44a3c9d8f2d7e61c05ba7"


def entries(name):
    """The journal's entries about an incident."""
    done = subprocess.run(
        ["journalctl", "-o", "json", "--all", f"INCIDENT_ID={name}"], capture_output=True, text=True, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def marks(watcher):
    return [path.name.removeprefix(".unreported-") for path in (watcher.state / "incidents").glob(".unreported-*")]


def test_once_in_the_journal(daemon):
    watcher = daemon()
    died = run(victim("die"), "null-read")
    name = watcher.joined_incident(died.pid).path.name
    until(lambda: not marks(watcher), "the incident to be reported", watcher.tail)
    (entry,) = until(lambda: entries(name), "its journal entry", watcher.tail)
    assert MESSAGE_ID in entry["MESSAGE_ID"]
    assert entry["INCIDENT_PID"] == str(died.pid)
    watcher.stop()
    watcher.start()
    watcher.stop()
    assert len(entries(name)) == 1


def test_a_daemon_that_is_killed_first(daemon):
    watcher = daemon()
    died = run(victim("die"), "null-read")
    name = watcher.incident(died.pid).path.name
    watcher.kill()
    told = entries(name)
    assert told or marks(watcher) == [name], "it is known that nobody was told"
    watcher.start()
    until(lambda: not marks(watcher) and entries(name), "the next daemon to tell", watcher.tail)


def test_what_was_left_to_tell_is_told_at_the_start(daemon):
    watcher = daemon()
    died = run(victim("die"), "null-read")
    name = watcher.joined_incident(died.pid).path.name
    until(lambda: entries(name) and not marks(watcher), "the incident to be reported", watcher.tail)
    watcher.stop()
    (watcher.state / "incidents" / f".unreported-{name}").touch()
    (watcher.state / "incidents" / ".unreported-20260101T000000.000Z-crash-gone-1-abcdef").touch()
    watcher.start()
    until(lambda: len(entries(name)) == 2, "the second entry", watcher.tail)
    until(lambda: not marks(watcher), "both marks to go", watcher.tail)


def test_a_hook_that_cannot_be_started_is_counted(daemon):
    watcher = daemon(config='[hook]\nunit = "incident-hook-of-no-one@.service"\n')
    died = run(victim("die"), "null-read")
    name = watcher.joined_incident(died.pid).path.name
    until(lambda: watcher.ctl.json("status")["hook"]["failed"], "the refusal", watcher.tail)
    hook = watcher.ctl.json("status")["hook"]
    assert (hook["started"], hook["failed"], hook["suppressed"]) == (0, 1, 0)
    escaped = name.replace("-", "\\x2d")
    assert f"incident-hook-of-no-one@{escaped}.service not started" in watcher.log.read_text()
    assert "handed to incident-hook-of-no-one@.service: 0, 1 failed" in watcher.ctl.text("status")
