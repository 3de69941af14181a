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


def memory_v1():
    """The v1 memory hierarchy, where this machine has one."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, after = line.split(" - ")
        if after.split()[0] == "cgroup" and "memory" in after.split()[2].split(","):
            return Path(before.split()[4])
    pytest.skip("no cgroup v1 memory hierarchy is mounted (v2's is tested in the virtual machine)")


@contextmanager
def limited_memory(name, limit):
    """A memory cgroup with a limit in bytes and no swap; gives its directory."""
    directory = memory_v1() / name
    directory.mkdir()
    try:
        (directory / "memory.limit_in_bytes").write_text(str(limit))
        yield directory
    finally:
        until(lambda: not (directory / "cgroup.procs").read_text(), f"{directory} to be empty")
        directory.rmdir()
