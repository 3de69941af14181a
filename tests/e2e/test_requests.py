"""Requests of io_uring in an incident: what the thread asked for, what came of it, and what is still under way."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.users import open_to_all
from lib.victims import finish, run, running, start
from lib.wait import until


@pytest.fixture(scope="module")
def rings():
    program = compiled("rings.c")
    if subprocess.run([program, "crash"], capture_output=True, check=False).returncode == 77:
        pytest.skip("this kernel does not allow io_uring")
    return program


def by_user_data(incident):
    """The requests of its timeline."""
    found = {}
    for line in incident.timeline:
        if line["kind"] == "request":
            found.setdefault(int(line["user_data"], 16), []).append(line)
    return found


def test_requests_are_told_as_the_calls_that_do_the_same(daemon, rings):
    watcher = daemon(rules=CRASH_RULE)
    died = run(rings, "crash")
    file, reads = map(int, died.lines[0].split())
    incident = watcher.incident(died.pid)
    told = by_user_data(incident)
    assert all(len(told[number]) == 1 for number in range(1, 8)), told
    opened, read, by_worker, failed, registered, closed, waiting = (told[number][0] for number in range(1, 8))

    assert opened["name"] == "io_uring:openat" and opened["ret"] == file
    assert opened["args"] == ["AT_FDCWD", '"/etc/passwd"', "O_RDONLY|O_CLOEXEC"] and opened["path"] == "/etc/passwd"
    assert read["name"] == "io_uring:read" and read["args"][0] == str(file) and read["args"][2] == "5"
    assert read["fd_path"] == "/etc/passwd"
    assert read["ret"] == 5 and read["duration_ns"] > 0 and read["tid"] == died.pid
    assert by_worker["ret"] > 0 and by_worker["tid"] == died.pid
    assert failed["error"] == "ENOENT" and failed["ret"] == -2
    assert registered["args"][0] == "fixed 0" and registered["fd"] is None
    assert closed["name"] == "io_uring:close" and closed["ret"] == 0
    assert waiting["name"] == "io_uring:read" and waiting["args"][0] == str(reads)
    assert waiting["in_flight"], waiting

    threads = incident.threads
    (pending,) = [thread["requests_in_flight"] for thread in threads if thread.get("requests_in_flight")]
    assert pending["count"] == 1
    assert pending["oldest"][0]["name"] == "io_uring:read" and pending["oldest"][0]["elapsed_ns"] >= 50_000_000
    for verb in ("threads", "info"):
        assert f"1 request is in flight: io_uring:read({reads}, " in watcher.ctl.run(verb, incident.id).stdout, verb
    shown = watcher.ctl.run("timeline", incident.id, "--kind", "request").stdout
    assert f'io_uring:openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = {file} <' in shown
    assert "= -1 ENOENT <" in shown and f"io_uring:read({file}</etc/passwd>, " in shown
    facts = [json.loads(line) for line in (incident.path / "facts.jsonl").read_text().splitlines()]
    assert [fact["what"] for fact in facts if fact["kind"] == "path" and fact["name"] == "io_uring:openat"]
    (failure,) = [fact for fact in facts if fact["kind"] == "failure" and fact["name"] == "io_uring:openat"]
    assert failure["what"] == "ENOENT" and failure["met"] == 1
    # A thread that the kernel has made for the process does nothing of the program's.
    for worker in (thread for thread in threads if thread["comm"].startswith("iou-")):
        assert worker["syscall"] is None and worker["registers"] is None and not worker["stack"]["frames"]


def test_calls_are_counted_as_before(daemon, rings):
    watcher = daemon(rules=CRASH_RULE)
    died = run(rings, "crash")
    incident = watcher.incident(died.pid)
    names = [line["name"] for line in incident.timeline if line["kind"] == "syscall"]
    assert names.count("io_uring_enter") == 7
    (thread,) = [one for one in incident.threads if one["tid"] == died.pid]
    account = thread["accounting"]
    assert account["recorded"] + account["left_out"] + account["overwritten"] + account["lost"] == account["recorded"]
    assert account["requests_lost"] == 0


def test_of_one_that_lives_on(daemon, rings):
    rule = f"""
[[rule]]
name = "waits"
on = "blocked"
threshold = "100ms"
when = "deadline"
idle = true
match = {{ exe = ["{rings}"] }}
"""
    watcher = daemon(rules=rule)
    process = start(rings, "wait")
    try:
        _, reads = map(int, process.stdout.readline().split())
        incident = watcher.incident(process.pid)
        (waiting,) = by_user_data(incident)[7]
        assert waiting["in_flight"] and waiting["ret"] is None and waiting["duration_ns"] is None
        assert f"1 request is in flight: io_uring:read({reads}, " in watcher.ctl.run("threads", incident.id).stdout
        assert "= ? <in flight>" in watcher.ctl.run("timeline", incident.id, "--kind", "request").stdout
    finally:
        process.kill()
        process.wait()


def test_what_may_have_ended_is_not_told_as_under_way(daemon, rings):
    watcher = daemon(rules=CRASH_RULE)
    died = run(rings, "overflow")
    incident = watcher.incident(died.pid)
    lines = [line for line in incident.timeline if line["kind"] == "request"]
    assert any(line.get("note") == "the completion queue was full" for line in lines)
    assert not any(line["in_flight"] for line in lines)


def test_of_one_that_was_submitted_before(daemon, rings):
    process = start(rings, "late", stdin=subprocess.PIPE)
    process.stdout.readline()
    watcher = daemon(rules=CRASH_RULE)
    died = finish(process, stdin=b"\n")
    (late,) = by_user_data(watcher.incident(died.pid))[7]
    assert late["name"] == "io_uring:read" and late["ret"] == 1 and late["tid"] == died.pid
    assert late["duration_ns"] is None and not late["args"]
    assert late["note"] == "when it was submitted is not known"


def test_what_a_killed_process_had_in_flight(daemon, rings):
    rule = f"""
[[rule]]
name = "killed"
on = "signal"
signals = ["SIGKILL"]
match = {{ exe = ["{rings}"] }}
"""
    watcher = daemon(rules=rule)
    process = start(rings, "wait")
    process.stdout.readline()
    process.kill()
    process.wait()
    (waiting,) = by_user_data(watcher.incident(process.pid))[7]
    assert waiting["in_flight"], waiting


def test_one_users_flood_takes_nothing_from_another(daemon, rings):
    watcher = daemon(rules=CRASH_RULE)
    with open_to_all(rings) as programs, running(programs / Path(rings).name, "flood", user=4711, cwd="/") as flood:
        assert flood.stdout.readline() == b"flooded\n"
        died = run(rings, "crash")
        incident = watcher.incident(died.pid)
        (waiting,) = by_user_data(incident)[7]
        assert waiting["in_flight"] and waiting["args"], waiting
        flood.send_signal(signal.SIGSEGV)
        flood.wait()
        # what was beyond her share is told as lost, of her own incident alone
        hers = watcher.incident(flood.pid)
    lost = [loss["where"] for loss in hers.quality["losses"]]
    assert "io_uring requests" in lost, hers.quality["losses"]
    assert "io_uring requests" not in [loss["where"] for loss in incident.quality["losses"]]


def test_processes_with_requests_leave_nothing(daemon, rings):
    """The kernel takes back what is in flight as a process ends, in its threads' contexts."""
    watcher = daemon(rules=CRASH_RULE)

    def used():
        recorder = watcher.ctl.json("status")["recorder"]
        return recorder["threads_used"], recorder["processes_used"]

    before = used()
    for _ in range(100):
        process = start(rings, "wait")
        process.stdout.readline()
        process.terminate()
        process.wait()
    until(lambda: used()[0] <= before[0] + 30, f"no more slots than {before} to be taken: {used()}", watcher.tail)


def test_workers_without_work_are_not_blocked(daemon, rings):
    rule = f"""
[[rule]]
name = "waits"
on = "blocked"
threshold = "100ms"
match = {{ exe = ["{rings}"] }}
"""
    watcher = daemon(rules=rule)
    process = start(rings, "wait")
    try:
        process.stdout.readline()
        time.sleep(1)
        run(victim("die"), "null-read")
        (said,) = watcher.ctl.json("status")["rules"]
        assert said["fired"] == 0
    finally:
        process.kill()
        process.wait()
