"""Rules about system calls that fail or are slow, of real tools."""

import shutil
import signal
import subprocess
from pathlib import Path

from lib.programs import victim
from lib.victims import run, running
from lib.wait import until

PLAIN = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}  # with a locale, programs look for files that are not there


def rule(more, name="call", match='match = { comm = ["cat", "trouble", "sleep", "flock"] }'):
    return f'[[rule]]\nname = "{name}"\non = "syscall"\n{more}\n{match}\nlimit = {{ cooldown = "1h", by = "process" }}\n'


def state(pid):
    """One letter, as proc_pid_stat(5) has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_failing_open_of_cat(daemon):
    watcher = daemon(rules=rule('syscall = ["openat"]\nerrno = ["ENOENT"]'))
    ended = run("cat", "/no/such/file", env=PLAIN)
    assert ended.status == 1
    incident = watcher.incident(ended.pid)
    assert incident.record["kind"] == "syscall"
    call = incident.record["syscall"]
    assert call["name"] == "openat"
    assert call["error"] == "ENOENT"
    assert call["path"] == "/no/such/file"
    assert incident.record["signal"] is None
    assert "ENOENT" in incident.record["summary"]
    trigger = [event for event in incident.timeline if event.get("trigger")]
    assert len(trigger) == 1 and trigger[0]["kind"] == "trigger"


def test_the_thread_is_captured_in_the_call(daemon):
    """Registers and stack are those at the call's return, though the process goes on at once."""
    watcher = daemon(rules=rule('syscall = ["openat"]\nerrno = ["ENOENT"]'))
    ended = run(victim("trouble"), "open", "/no/such/file", "1")
    incident = watcher.incident(ended.pid)
    thread = incident.thread(ended.pid)
    assert thread["registers"]["rax"] == hex((1 << 64) - 2)
    assert thread["stack"]["bytes"] >= 4096
    assert "openat" in [call["name"] for call in incident.calls(ended.pid)]


def test_a_thread_that_could_not_be_captured_is_told_of(daemon, tmp_path):
    """Programs that nobody has judged yet use up the captures of a second; what ends at once is then gone."""
    watcher = daemon(rules=rule('syscall = ["openat"]\nerrno = ["ENOENT"]'))
    others = [shutil.copy("/bin/cat", tmp_path / f"other{i}") for i in range(60)]
    started = [subprocess.Popen([other, "/no/such/file"], env=PLAIN, stderr=subprocess.DEVNULL) for other in others]
    for other in started:
        other.wait()
    incident = watcher.incident(run(victim("trouble"), "open", "/no/such/file", "1").pid)
    told = [loss["count"] for loss in incident.quality["losses"] if loss["where"] == "threads"]
    assert len(incident.threads) + sum(told) == 1
    assert not told or not incident.quality["complete"]


def test_of_a_thread_that_has_ended_no_registers_are_told(daemon):
    """More programs than a second has captures end, are not waited for, and only then are looked at from outside."""
    watcher = daemon(rules=rule('syscall = ["openat"]\nerrno = ["ENOENT"]'), config="[storm]\nfull = 1000\n")
    watcher.process.send_signal(signal.SIGSTOP)
    started = [subprocess.Popen(["cat", "/no/such/file"], env=PLAIN, stderr=subprocess.DEVNULL) for _ in range(40)]
    try:
        until(lambda: all(state(process.pid) == "Z" for process in started), "all to have ended")
    finally:
        watcher.process.send_signal(signal.SIGCONT)
    incidents = [watcher.incident(process.pid) for process in started]
    for process in started:
        process.wait()
    for incident in incidents:
        assert all(thread["registers"] is None or thread["registers"]["rip"] != "0x0" for thread in incident.threads)
        assert any(thread["registers"] for thread in incident.threads) or not incident.quality["complete"]
    assert not all(incident.threads for incident in incidents), "each had a capture"


def test_a_slow_call_of_a_real_tool(daemon, tmp_path):
    """flock(1) waits for a lock that another one holds."""
    watcher = daemon(rules=rule('syscall = ["flock"]\nslower_than = "200ms"'))
    lock = tmp_path / "lock"
    with running("flock", str(lock), "sleep", "0.6"):
        until(lock.exists, "the lock file")
        until(lambda: run("flock", "-n", str(lock), "true").status == 1, "the lock to be held")
        waited = run("flock", str(lock), "true")
    incident = watcher.incident(waited.pid)
    call = incident.record["syscall"]
    assert call["name"] == "flock"
    assert call["duration_ns"] >= 200_000_000
    assert call["error"] is None


def test_a_quick_one_does_not_fire(daemon):
    watcher = daemon(rules=rule('syscall = ["flock"]\nslower_than = "10s"') + rule('syscall = ["openat"]\nerrno = ["ENOENT"]', "mark"))
    ended = run("cat", "/no/such/file", env=PLAIN)
    assert watcher.incident(ended.pid).record["rule"] == "mark"
    assert len(watcher.incidents()) == 1


def test_other_errors_and_other_calls_do_not_fire(daemon, tmp_path):
    watcher = daemon(rules=rule('syscall = ["openat"]\nerrno = ["EACCES"]') + rule('syscall = ["openat"]\nerrno = ["ENOTDIR"]', "mark"))
    assert run("cat", "/no/such/file", env=PLAIN).status == 1
    file = tmp_path / "file"
    file.write_text("x")
    ended = run("cat", str(file / "below"), env=PLAIN)
    assert watcher.incident(ended.pid).record["rule"] == "mark"
    assert len(watcher.incidents()) == 1


def test_count_within_a_window(daemon):
    watcher = daemon(rules=rule('syscall = ["openat"]\nerrno = ["ENOENT"]\ncount = 50\nwindow = "1m"', match='match = { comm = ["trouble"] }'))
    few = run(victim("trouble"), "open", "/no/such/file", "49")
    many = run(victim("trouble"), "open", "/no/such/file", "50")
    incident = watcher.incident(many.pid)
    assert incident.record["matches"]["total"] == 50
    assert len(incident.record["matches"]["kept"]) == 50
    assert few.pid not in [i.process["pid"] for i in watcher.incidents()]


def test_processes_that_do_not_match_do_not_fire(daemon):
    watcher = daemon(rules=rule('syscall = ["openat"]\nerrno = "any"', match='match = { comm = ["trouble"] }'))
    assert run("cat", "/no/such/file", env=PLAIN).status == 1
    ended = run(victim("trouble"), "open", "/no/such/file", "1")
    watcher.incident(ended.pid)
    assert len(watcher.incidents()) == 1


def test_every_thread_is_in_the_bundle(daemon):
    """The others are looked at from outside: registers, kernel stack, memory."""
    watcher = daemon(rules=rule('syscall = ["read"]\nslower_than = "50ms"', match='match = { comm = ["trouble"] }'))
    with running(victim("trouble"), "pipe", "300") as process:
        incident = watcher.incident(process.pid)
        names = {thread["comm"] for thread in incident.threads}
        assert "trouble" in names
    reader = incident.thread(process.pid)
    assert not any(thread["crashed"] for thread in incident.threads), "it lives on"
    assert incident.record["thread"]["tid"] == process.pid
