"""Files and processes that make their readers hang: those of one user take nothing from another's incidents."""

import os

from lib.compiled import compiled
from lib.dead_mount import dead_mount
from lib.programs import victim
from lib.victims import finish, run, start
from lib.wait import PATIENCE, until

EVE, BOB = 4711, 4712
HANGS_MOST = 8  # readers of one user's files; capture/collect/hanging.h


def threads_of(watcher):
    return len(os.listdir(f"/proc/{watcher.process.pid}/task"))


def build_ids_of(incident):
    (result,) = [one for one in incident.quality["collectors"] if one["name"] == "build_ids"]
    return result


def test_one_users_dead_file_system_is_nobody_elses(daemon, tmp_path):
    """She crashes more often with it than readers may hang; his crash behind hers is whole all the same."""
    watcher = daemon(config="[storm]\nfull = 1000\n")
    with dead_mount(tmp_path / "mount") as (file, _):
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
