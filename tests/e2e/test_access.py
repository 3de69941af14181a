"""Who may read incidents: root alone, or the members of a group."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from lib.ctl import Ctl
from lib.programs import INCIDENTCTL, victim
from lib.victims import run

NOBODY = 65534  # base-passwd: nobody, of the group nogroup
STRANGER = 64999  # of no group


@pytest.fixture(name="public")
def public_directory():
    """One that everybody may pass, with incidentctl in it: the checkout may be root's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o711)
        shutil.copy(INCIDENTCTL, directory)
        yield Path(directory)


def as_user(state, public, user, group):
    return Ctl(state, public / "incidentctl", prefix=("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"))


def watch(daemon, public, config):
    watcher = daemon(started=False, config=config)
    watcher.state = public / "state"
    watcher.ctl = Ctl(watcher.state)
    return watcher.start()


def test_members_of_the_group_read_incidents(public, daemon):
    watcher = watch(daemon, public, '[access]\ngroup = "nogroup"\n')
    died = run(victim("die"), "null-read")
    watcher.incident(died.pid)
    watcher.explained_incident(died.pid)
    member = as_user(watcher.state, public, NOBODY, NOBODY)
    assert str(died.pid) in member.text("list")
    assert "SIGSEGV" in member.text("info")
    assert member.text("timeline")
    assert member.text("threads")
    assert member.text("verify", died.pid)
    status = member.run("status")
    assert status.returncode == 1, "the daemon itself is root's"
    assert "no permission to" in status.stderr


def test_others_read_nothing(public, daemon):
    watcher = watch(daemon, public, '[access]\ngroup = "nogroup"\n')
    died = run(victim("die"), "null-read")
    watcher.incident(died.pid)
    stranger = as_user(watcher.state, public, STRANGER, STRANGER)
    for verb in ("list", "info", "timeline", "threads", "status"):
        done = stranger.run(verb)
        assert done.returncode == 1, verb
        assert done.stdout == "", verb
        assert "no permission to" in done.stderr, verb


def test_a_group_that_does_not_exist_leaves_them_to_root(public, daemon):
    watcher = watch(daemon, public, '[access]\ngroup = "no-such-group"\n')
    died = run(victim("die"), "null-read")
    watcher.incident(died.pid)
    assert "no such group; incidents are for root alone" in watcher.tail()
    assert as_user(watcher.state, public, NOBODY, NOBODY).run("list").returncode == 1


def test_taken_back(public, daemon):
    watcher = watch(daemon, public, '[access]\ngroup = "nogroup"\n')
    died = run(victim("die"), "null-read")
    watcher.incident(died.pid)
    watcher.stop()
    watcher.config.write_text("")
    watcher.start()
    assert as_user(watcher.state, public, NOBODY, NOBODY).run("list").returncode == 1
    assert str(died.pid) in watcher.ctl.text("list")
