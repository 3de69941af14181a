"""Files and processes that make their readers hang: those of one user take nothing from another's incidents."""

import os
from contextlib import contextmanager

import pytest

from lib.compiled import compiled
from lib.programs import victim
from lib.victims import finish, run, start
from lib.wait import PATIENCE, until

EVE, BOB = 4711, 4712
HANGS_MOST = 8  # readers of one user's files; capture/collect/hanging.h


@contextmanager
def dead_mount(directory):
    """A file system whose server answers no read, like that of a network file system that is gone."""
    directory.mkdir()
    server = start(compiled("dead_mount.c"), str(directory), stdin=-1, stderr=None)
    try:
        if server.stdout.readline() != b"ready\n":
            pytest.skip("FUSE cannot be mounted here")
        yield directory / "file"
    finally:
        server.stdin.close()
        server.wait(PATIENCE)
        server.stdout.close()


def threads_of(watcher):
    return len(os.listdir(f"/proc/{watcher.process.pid}/task"))


def build_ids_of(incident):
    (result,) = [one for one in incident.quality["collectors"] if one["name"] == "build_ids"]
    return result


def test_one_users_dead_file_system_is_nobody_elses(daemon, tmp_path):
    """She crashes more often with it than readers may hang; his crash behind hers is whole all the same."""
    watcher = daemon(config="[storm]\nfull = 1000\n")
    with dead_mount(tmp_path / "mount") as file:
        hers = [start(compiled("dead_mount.c"), "--map", str(file), str(EVE)) for _ in range(HANGS_MOST + 2)]
        assert all(finish(process).status < 0 for process in hers)
        his = run(victim("die"), "null-read", user=BOB, group=BOB, cwd="/")
        incident = watcher.incident(his.pid)
        assert build_ids_of(incident)["ok"], build_ids_of(incident)["error"]
        assert incident.process["build_id"] and incident.crashed["registers"]
        assert not [one for one in incident.quality["collectors"] if "earlier" in (one["error"] or "")]
        told = [build_ids_of(watcher.incident(process.pid))["error"] for process in hers]
        assert sum("did not answer within" in error for error in told) == HANGS_MOST, told
        assert sum("earlier for this process or its user do not answer" in error for error in told) == 2, told
        watcher.ctl.text("verify", "--all")
        threads = threads_of(watcher)
    until(lambda: threads_of(watcher) <= threads - HANGS_MOST, "those that hung to return", watcher.tail)
    again = start(compiled("dead_mount.c"), "--map", "/bin/true", str(EVE))
    finish(again)
    assert build_ids_of(watcher.incident(again.pid))["ok"]
