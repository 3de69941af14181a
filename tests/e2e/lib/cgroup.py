"""Control groups (v2) for tests, wherever the machine has mounted them."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.wait import until


def v2_root():
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, after = line.split(" - ")
        if after.split()[0] == "cgroup2":
            return Path(before.split()[4])
    pytest.skip("no cgroup2 hierarchy is mounted")


@contextmanager
def cgroup(path):
    """Makes a cgroup such as "system.slice/x.service", and removes what it made."""
    made = []
    directory = v2_root()
    for part in Path(path).parts:
        directory /= part
        if not directory.exists():
            directory.mkdir()
            made.append(directory)
    try:
        yield directory
    finally:
        for each in reversed(made):
            until(lambda each=each: is_empty(each), f"{each} to be empty")
            each.rmdir()


def is_empty(directory):
    return "populated 0" in (directory / "cgroup.events").read_text(encoding="utf-8")


def inside(directory, *argv):
    """A command line that runs argv in the cgroup."""
    return ("sh", "-c", f'echo $$ > {directory}/cgroup.procs && exec "$@"', "sh", *argv)
