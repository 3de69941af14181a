"""incidentd where no more memory is to be had: what cannot be written is accounted for, and it goes on."""

import re
import resource
from pathlib import Path

import pytest

from lib.daemon import SANITIZED
from lib.programs import victim
from lib.victims import run
from lib.wait import until

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer ends the program that it can get no memory for")
CONFIG = "[storm]\nfull = 1000\n"
MEBIBYTE = 1 << 20


def size_of(watcher):
    """Of its address space, in bytes."""
    (kilobytes,) = re.findall(r"^VmSize:\s+(\d+) kB", Path(f"/proc/{watcher.process.pid}/status").read_text(), re.M)
    return int(kilobytes) * 1024


def limit(watcher, size):
    resource.prlimit(watcher.process.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


def accounted(watcher):
    said = watcher.ctl.json("status")["incidents"]
    return said["committed"] + said["failed"] + said["counted"] + said["joined"]


@pytest.mark.parametrize("room", [0, 1, 16, 64])
def test_an_address_space_that_is_full(daemon, room):
    watcher = daemon(config=CONFIG)
    assert watcher.incident(run(victim("die"), "null-read").pid).crashed["stack"]["bytes"] > 0  # what is loaded late is there
    limit(watcher, size_of(watcher) + room * MEBIBYTE)
    died = [run(victim("die"), kind).pid for kind in ("null-read", "abort", "stack-overflow", "fpe") for _ in range(3)]
    until(lambda: accounted(watcher) >= 1 + len(died), "each death to be accounted for", watcher.tail)
    limit(watcher, resource.RLIM_INFINITY)
    later = watcher.incident(run(victim("die"), "null-read").pid)
    assert later.crashed["stack"]["bytes"] > 0 and later.quality["threads_captured"] == 1
    assert watcher.ctl.run("verify").returncode == 0
    kept = {incident.process["pid"] for incident in watcher.incidents()}
    failed = watcher.ctl.json("status")["incidents"]["failed"]
    assert len(kept & set(died)) + failed >= len(died), "written, or said not to be"
