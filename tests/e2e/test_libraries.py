"""A library is probed in whatever process has it, wherever its file stands and whatever has become of that since."""

import shutil
import subprocess
from contextlib import contextmanager

import pytest

from lib.compiled import compiled
from lib.victims import running
from lib.wait import until

LIBC = ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6")


def rule(library):
    return (
        f'[[rule]]\nname = "slow"\non = "latency"\nprobe = "uprobe:{library}:work"\nthreshold = "50ms"\n'
        'match = { comm = ["works"] }\nlimit = { cooldown = "1h", by = "process" }\n'
    )


@pytest.fixture
def place(tmp_path):
    """A directory with the program, its library, and a newer build of that."""
    directory = tmp_path / "app"
    directory.mkdir()
    built = compiled("work.c", "-O1", "-shared", "-fPIC", "-DPAD=0", "-Wl,-soname,libwork.so.1")
    shutil.copy(built, directory / "libwork.so.1")
    shutil.copy(compiled("work.c", "-O1", "-shared", "-fPIC", "-DPAD=1", "-Wl,-soname,libwork.so.1"), directory / "newer")
    shutil.copy(compiled("works.c", "-O1", "-Wl,--no-as-needed", built, "-Wl,-rpath,$ORIGIN:/app"), directory / "works")
    return directory


@contextmanager
def works(watcher, *command):
    """It calls the function all the time."""
    with running(*map(str, command), stdin=subprocess.PIPE) as process:
        process.stdin.write(b"x" * 4096)
        process.stdin.flush()
        yield process


def told(watcher, process):
    assert watcher.incident(process.pid).record["kind"] == "latency"


def library(how, place):
    """As a rule names it: "bare", by its soname, or by the path of its file."""
    return place / "libwork.so.1" if how == "path" else "libwork.so.1"


@pytest.mark.parametrize("how", ["path", "bare"])
def test_one_that_is_replaced_while_it_is_in_use(daemon, place, how):
    """The old one goes on in who has it mapped, and the new one is another file at the same path."""
    watcher = daemon(rules=rule(library(how, place)))
    with works(watcher, place / "works") as before:
        told(watcher, before)
        (place / "newer").rename(place / "libwork.so.1")
        with works(watcher, place / "works") as after:
            told(watcher, after)


def test_one_that_was_replaced_before_its_rule_came(daemon, place):
    watcher = daemon(rules="")
    with works(watcher, place / "works") as process:
        until(lambda: "libwork" in open(f"/proc/{process.pid}/maps", encoding="utf-8").read(), "it to be mapped")
        (place / "newer").rename(place / "libwork.so.1")
        (watcher.rules / "test.toml").write_text(rule("libwork.so.1"))
        watcher.process.send_signal(1)
        told(watcher, process)


def test_one_of_another_root(daemon, place):
    root = place.parent / "root"
    shutil.copytree(place, root / "app")
    for file in LIBC:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file[1:])
    watcher = daemon(rules=rule("libwork.so.1"))
    with works(watcher, "chroot", root, "/app/works") as process:
        told(watcher, process)


@pytest.mark.parametrize("how", ["path", "bare"])
def test_one_at_another_path_in_a_mount_namespace(daemon, place, how):
    watcher = daemon(rules=rule(library(how, place)))
    mount = f"mount --bind {place} /mnt && exec /mnt/works"
    with works(watcher, "unshare", "--mount", "sh", "-c", mount) as process:
        told(watcher, process)
