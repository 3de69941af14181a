"""Crashes in containers: whose they are, where their files are on the host, and what gdb makes of them, there or gone."""

import filecmp
import json
import re
import subprocess

import pytest

from lib.podman import IMAGE, Podman
from lib.wait import until

RULE = """
[[rule]]
name  = "death"
on    = "signal"
match = { comm = ["shop-*"] }
"""
CHAIN = ["innermost", "middle", "outer"]
USERS = ("--uidmap", "0:100000:1000", "--gidmap", "0:100000:1000")


@pytest.fixture(scope="module")
def podman(tmp_path_factory):
    made = Podman(tmp_path_factory.mktemp("podman"))
    made.make_image()
    tried = made("run", "--rm", "--network", "none", IMAGE, "/bin/sh", "-c", "exit 7", check=False)
    if tried.returncode != 7:
        made.end()
        pytest.skip(f"podman starts no container here: {tried.stderr.strip()}")
    yield made
    made.end()


@pytest.fixture(scope="module")
def watcher(coredump_host, tmp_path_factory):
    from lib.daemon import Daemon

    shared = Daemon(tmp_path_factory.mktemp("recorder"), rules=RULE).start()
    yield shared
    shared.stop()


def crash(watcher, run):
    """The incident of a program that nobody knows the pid of."""
    before = {incident.id for incident in watcher.incidents()}
    run()

    def found():
        return [incident for incident in watcher.incidents() if incident.id not in before]

    (new,) = until(found, "the incident", watcher.tail)
    watcher.joined_incident(new.process["pid"])
    return watcher.explained_incident(new.process["pid"])


class Crashed:
    """One of podman's."""

    def __init__(self, watcher, podman, *options, command):
        self.incident = crash(watcher, lambda: self.run(podman, options, command))

    def run(self, podman, options, command):
        self.name = podman.run(*options, command=command)
        self.id = podman("inspect", "-f", "{{.Id}}", self.name).stdout.strip()


def names(incident):
    return [frame["symbol"] for frame in incident.crashed["stack"]["frames"] if frame["symbol"]]


def assert_chain(found):
    begin = found.index("innermost")
    assert found[begin : begin + 3] == CHAIN, found


def gdb(watcher, incident, *commands):
    asked = [part for command in commands for part in ("-ex", command)]
    return watcher.ctl.run("gdb", incident.id, "--", "-batch", *asked)


@pytest.mark.parametrize("libc", ["glibc", "musl"])
@pytest.mark.parametrize("users", [(), USERS], ids=["", "user namespace"])
def test_the_first_process_of_a_container(watcher, podman, libc, users):
    """The container has ended with it: its files lie in the image's layer."""
    program = f"/opt/app/shop-{libc}"
    crashed = Crashed(watcher, podman, *users, command=(program, "16384", "main"))
    incident = crashed.incident
    process, info = incident.process, incident.process["container_info"]
    assert process["container"] == info["id"] == crashed.id
    assert (info["runtime"], info["name"], info["image"]) == ("podman", crashed.name, IMAGE)
    assert info["from"].endswith("containers.json")
    assert process["ns_pid"] == 1 and process["uid"] == (100000 if users else 0)
    assert process["exe"] == program
    on_host = process["exe_on_host"]
    assert on_host.endswith(program)
    # Where users are mapped, the layers' own mounts, which podman takes away again, have other users for the files; what
    # is left is where the container is mounted as long as it runs.
    assert ("/merged/" in on_host) == bool(users)
    if not users:
        assert filecmp.cmp(on_host, podman.directory / "root" / program.lstrip("/"), shallow=False)
    assert_chain(names(incident))
    assert incident.record["core"]["join"] == "exact"

    shown = watcher.ctl.run("info", incident.id).stdout
    assert f"container  {crashed.name} (podman {crashed.id[:12]}, image {IMAGE}); it is pid 1 there" in shown
    assert f"on the host {on_host}" in shown

    told = gdb(watcher, incident, "bt", "x/i innermost").stdout
    assert f"tid {process['pid']}, selected" in told
    stack = told[told.index("see ") :]
    assert [stack.index(f"{name} (") for name in CHAIN] == sorted(stack.index(f"{name} (") for name in CHAIN)
    if not users:
        assert "<innermost>:" in stack and "Cannot access memory" not in stack


def test_of_a_file_that_is_gone_with_its_container(watcher, podman):
    """What a container has made itself goes when it is removed: the kept copy has names, and no code that gdb may show."""
    script = "cp /opt/app/shop-glibc /opt/app/shop-copied; /opt/app/shop-copied 16384 thread; true"
    crashed = Crashed(watcher, podman, command=("/bin/sh", "-c", script))
    incident = crashed.incident
    assert incident.process["ns_pid"] > 1
    assert incident.process["exe_on_host"].endswith("/diff/opt/app/shop-copied")
    assert_chain(names(incident))
    podman.remove(crashed.name)
    for options in ((), ("--mini",)):
        told = watcher.ctl.run(
            "gdb", *options, incident.id, "--", "-batch", "-ex", "bt", "-ex", "x/i innermost", "-ex", "info threads"
        )
        assert "shop-copied is gone: its names come from the copy" in told.stderr, told.stderr
        stack = told.stdout[told.stdout.index("see ") :]
        for name in CHAIN:
            assert f"{name} (" in stack, told.stdout
        assert "Cannot access memory" in told.stdout + told.stderr
        assert "tid " + str(incident.crashed["tid"]) + ", selected" in told.stdout
        assert stack.count("LWP") <= len(incident.threads), stack  # none that there was not


def test_threads_are_joined_by_where_their_stacks_are(watcher, podman):
    crashed = Crashed(watcher, podman, command=("/opt/app/shop-glibc", "16384", "thread"))
    told = gdb(watcher, crashed.incident, "incident threads").stdout
    for thread in crashed.incident.threads:
        assert re.search(rf"thread \d+ +\S+\[{thread['tid']}\]", told), told




def test_below_nspawn(watcher, podman):
    """A machine without an overlay: its root is a directory.  Where systemd does not run it has no name."""
    root = podman.directory / "root"
    command = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--directory", root)
    tried = subprocess.run([*command, "/bin/sh", "-c", "exit 7"], capture_output=True, text=True, check=False)
    if tried.returncode != 7:
        pytest.skip(f"systemd-nspawn starts nothing here: {tried.stderr.strip()}")
    program = "/opt/app/shop-glibc"
    incident = crash(watcher, lambda: subprocess.run([*command, program, "16384", "main"], check=False))
    assert incident.process["ns_pid"] == 2
    assert incident.process["exe"] == program
    assert incident.process["exe_on_host"] == f"{root}{program}"
    assert_chain(names(incident))
    told = gdb(watcher, incident, "bt", "x/i innermost").stdout
    assert f"tid {incident.process['pid']}, selected" in told
    for name in CHAIN:
        assert f"{name} (" in told
    assert "<innermost>:" in told


def test_below_a_root_that_is_no_mount(watcher, podman):
    """It is in the host's mount namespace, and the kernel tells the paths as the host sees them."""
    root = podman.directory / "root"
    incident = crash(
        watcher, lambda: subprocess.run(["chroot", root, "/opt/app/shop-musl", "16384", "main"], check=False)
    )
    assert incident.process["exe"] == f"{root}/opt/app/shop-musl"
    assert incident.process["exe_on_host"] is None and incident.process["container_info"] is None
    assert_chain(names(incident))
    assert "innermost (" in gdb(watcher, incident, "bt").stdout


def test_the_last_words_are_what_the_container_wrote(watcher, podman):
    """By podman's log driver for the journal: its lines are of conmon, which is in no unit of the process."""
    script = "echo 42 orders are open; echo the next is broken >&2; /opt/app/shop-glibc 16384 main; true"
    options = ("--log-driver", "journald")
    incident = Crashed(watcher, podman, *options, command=("/bin/sh", "-c", script)).incident
    spoken = watcher.spoken_incident(incident.process["pid"])
    words = [json.loads(line) for line in spoken.text("journal.jsonl").splitlines()]
    said = [word["message"] for word in words if word["source"] == "container"]
    assert said[:2] == ["42 orders are open", "the next is broken"], words
    shown = watcher.ctl.run("info", incident.id).stdout
    assert "the next is broken" in shown, shown
