"""The disk that incidents are kept on is full: nothing is dumped of which nothing would be told, the loss is counted, and
what comes when there is room again is whole."""

import errno
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from lib import callers
from lib.daemon import CRASH_RULE
from lib.incident import of_pid
from lib.programs import victim
from lib.victims import finish, run, running, start
from lib.wait import PATIENCE, until
from test_rule_dump import ALLOW, rule, slow_call

# Copies of mapped files go first, which is for one test alone.
NO_COPIES = '[budget]\nmodules = "0B"\n'
SMALL = NO_COPIES + 'keep_free = "0B"\n'
EACH_WHOLE = "[storm]\nfull = 1000\n"


@pytest.fixture
def small_disk(tmp_path):
    """mounted(directory): 24 MiB of a file system of its own there; gone after the daemon, which is asked for later."""
    mounted = []

    def mount(directory):
        directory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", directory], check=True)
        mounted.append(directory)

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "--lazy", directory], check=True)  # its analyser may end a moment later


@contextmanager
def full(state):
    """No byte of it is free while the block runs."""
    filler = state / "filler"
    with open(filler, "wb", buffering=0) as file:
        for chunk in (1 << 20, 4096):
            try:
                while file.write(b"\0" * chunk):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
    assert os.statvfs(state).f_bavail == 0
    yield
    filler.unlink()


def made(small_disk, daemon, **options):
    watcher = daemon(started=False, **options)
    small_disk(watcher.state)
    return watcher.start()


def is_lost(watcher):
    return [loss for loss in watcher.ctl.json("status")["losses"] if loss["where"] == "incidents"]


def whole(watcher, incident):
    watcher.ctl.text("verify", incident.id)
    def partial():  # of the moment, while a verdict is added
        return [path for path in (watcher.state / "incidents").iterdir() if ".partial" in path.name]

    until(lambda: not partial(), "half bundles to be gone", watcher.tail)


def test_nobody_is_dumped_for_an_incident_that_cannot_be_written(small_disk, daemon, coredump_host):
    watcher = made(small_disk, daemon, rules=rule(), config=ALLOW + SMALL)
    with full(watcher.state), running(victim("trouble"), "pipe", "60000") as process:
        until(lambda: is_lost(watcher), "the loss to be counted", watcher.tail)
        assert process.poll() is None
        assert f"pid {process.pid} (trouble) is not made to dump core: no room for its incident" in watcher.log.read_text()
        (lost,) = is_lost(watcher)
        assert "No space left" in lost["reason"] and lost["count"] == 1
        assert not of_pid(watcher.state, process.pid)
    next_one = start(victim("trouble"), "pipe", "60000")
    assert finish(next_one).status < 0
    incident = watcher.joined_incident(next_one.pid)
    assert incident.record["dump"]["sent"]
    whole(watcher, watcher.explained_incident(next_one.pid))


def test_nor_by_the_kernel_side(small_disk, daemon, coredump_host):
    watcher = made(small_disk, daemon, rules=slow_call("slow", 'comm = ["service"]'), config=ALLOW + SMALL)
    with callers.told("service") as process, callers.told("service") as later:
        assert callers.tell(process, "x" * 50) and callers.tell(later, "x" * 50)
        with full(watcher.state):
            watcher.process.send_signal(signal.SIGHUP)  # it looks at the disk then, as it does every second
            until(lambda: "reloaded: 1 rules" in watcher.log.read_text(), "the daemon to see it", watcher.tail)
            assert callers.tell(process, "s" * 3)
            until(lambda: is_lost(watcher), "the loss to be counted", watcher.tail)
            assert process.poll() is None
        callers.tell(later, "s")
        assert later.wait(PATIENCE) < 0
        assert watcher.incident(later.pid).record["dump"]["sent"]


def test_a_crash_then_is_counted_and_the_next_is_whole(small_disk, daemon, coredump_host):
    watcher = made(small_disk, daemon, rules=CRASH_RULE, config=SMALL)
    with full(watcher.state):
        died = run(victim("die"), "null-read")
        until(lambda: is_lost(watcher), "the loss to be counted", watcher.tail)
        assert not of_pid(watcher.state, died.pid)
    died = run(victim("die"), "null-read")
    whole(watcher, watcher.explained_incident(died.pid))


def test_what_is_older_makes_room(small_disk, daemon, coredump_host):
    """[budget] keep_free is not to be had any more: the oldest go, as they do when ours take it."""
    watcher = made(small_disk, daemon, rules=CRASH_RULE, config=NO_COPIES + 'keep_free = "1MiB"\n')
    old = run(victim("die"), "null-read")
    watcher.explained_incident(old.pid)
    with full(watcher.state):
        died = run(victim("die"), "null-read")
        whole(watcher, watcher.incident(died.pid))
        assert not of_pid(watcher.state, old.pid)


@contextmanager
def strangers_file(state, leaves):
    """Somebody else's file on the same file system, that leaves so many bytes free."""
    space = os.statvfs(state)
    size = space.f_bavail * space.f_bsize - leaves
    with open(state / "junk", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    yield
    (state / "junk").unlink()


def recorded(watcher):
    return {incident.id for incident in watcher.incidents()}


def crash(watcher, kind="null-read"):
    died = run(victim("die"), kind)
    return watcher.explained_incident(died.pid)


def test_nothing_is_erased_for_a_file_of_others(small_disk, daemon):
    """To remove all incidents would not make as much free as is to be kept free: only as much goes as comes."""
    watcher = made(small_disk, daemon, rules=CRASH_RULE, config=EACH_WHOLE + NO_COPIES + 'keep_free = "8MiB"\nat_least = 4\n')
    before = [crash(watcher).id for _ in range(8)]
    with strangers_file(watcher.state, 2 << 20):
        newer = [crash(watcher).id for _ in range(2)]
        left = recorded(watcher)
        assert set(newer) <= left and len(left & set(before)) >= 5, watcher.tail()
        assert "would not change that" in watcher.log.read_text()
    assert watcher.ctl.json("status")["incidents"]["removed"] == 10 - len(left)


def test_copies_of_mapped_files_go_first(small_disk, daemon):
    watcher = made(small_disk, daemon, rules=CRASH_RULE, config=EACH_WHOLE + '[budget]\nkeep_free = "8MiB"\n')

    def copies():
        return watcher.ctl.json("status")["modules"]

    with running("perl", "-e", "sleep"), running("/usr/bin/python3", "-c", "input()", stdin=subprocess.PIPE):
        before = [crash(watcher).id for _ in range(3)]
        until(lambda: copies()["bytes"] > 4 << 20, "files to be copied", lambda: f"{copies()}\n{watcher.tail()}")
        had = copies()
        with strangers_file(watcher.state, 7 << 20):  # what is free is to become more by 1 MiB and what comes
            newer = [crash(watcher).id for _ in range(2)]
            assert set(before + newer) <= recorded(watcher), watcher.tail()
            assert copies()["removed"] > 0 and 0 < copies()["bytes"] < had["bytes"] - (1 << 20)
    watcher.ctl.text("verify", "--all")


def test_so_many_stay_though_others_need_the_space(small_disk, daemon):
    watcher = made(small_disk, daemon, rules=CRASH_RULE, config=EACH_WHOLE + NO_COPIES + 'keep_free = "3MiB"\nat_least = 4\n')
    before = [crash(watcher).id for _ in range(3)]
    with strangers_file(watcher.state, 2 << 20):
        assert recorded(watcher) | {crash(watcher).id} == recorded(watcher) | set(before)


def test_on_a_full_disk_each_crash_takes_the_place_of_one_like_it(small_disk, daemon):
    """All of them are written, and what is the only one of its signature stays, as does what is pinned."""
    watcher = made(small_disk, daemon, rules=CRASH_RULE, config=EACH_WHOLE + SMALL)
    rare, pinned = crash(watcher, "abort"), crash(watcher)
    watcher.ctl.text("pin", pinned.id)
    for _ in range(3):
        crash(watcher)
    with full(watcher.state):
        for _ in range(6):
            died = run(victim("die"), "null-read")
            whole(watcher, watcher.incident(died.pid))
        assert {rare.id, pinned.id} <= recorded(watcher)
        assert not is_lost(watcher)
    watcher.ctl.text("verify", "--all")


def test_the_reserve_is_for_what_nothing_else_makes_room_for(small_disk, daemon):
    watcher = made(small_disk, daemon, rules=CRASH_RULE, config=NO_COPIES + 'keep_free = "0B"\nreserve = "2MiB"\n')
    reserve = watcher.state / "incidents" / ".reserve"

    def made_whole():
        return reserve.exists() and reserve.stat().st_blocks * 512 >= 2 << 20

    until(made_whole, "the reserve to be made", watcher.tail)
    with full(watcher.state):
        died = run(victim("die"), "null-read")
        whole(watcher, watcher.incident(died.pid))
        assert not reserve.exists() and not is_lost(watcher)
    crash(watcher)
    until(made_whole, "the reserve to be made again", watcher.tail)


@pytest.mark.parametrize("error", ["EIO", "ENOMEM", "EMFILE"])
def test_what_fails_for_a_moment_is_written_again(daemon, error):
    """The second mkdirat is that of the bundle; the first finds incidents/ or makes it."""
    inject = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=mkdirat", "-e", f"inject=mkdirat:error={error}:when=2"]
    watcher = daemon(rules=CRASH_RULE, prefix=inject)
    died = run(victim("die"), "null-read")
    whole(watcher, watcher.incident(died.pid))
    assert "is written again" in watcher.log.read_text() and not is_lost(watcher)


def test_a_start_on_a_full_disk(small_disk, daemon):
    """It begins, or says what it lacks."""
    watcher = daemon(started=False, rules=CRASH_RULE, config=SMALL)
    small_disk(watcher.state)
    watcher.start()
    watcher.kill()
    with full(watcher.state):
        begun = subprocess.run(
            ["timeout", "--signal=TERM", "5", *watcher.command, "--foreground"], capture_output=True, text=True, check=False
        )
        assert begun.returncode in (0, 1, 124), begun.stderr
        assert begun.returncode != 1 or "No space left" in begun.stderr
    watcher.start()
    died = run(victim("die"), "null-read")
    whole(watcher, watcher.incident(died.pid))
