"""What is remembered of a program beyond its last calls: whom it talked to, which files, what failed, what was slow."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
from contextlib import ExitStack

import pytest

from lib.compiled import compiled
from lib.victims import run, start
from lib.wait import PATIENCE
from test_reload_memory import reload

# A loop of calls that differ washes away all that was before it.
SMALL = '[record]\nthreads = 64\ncalls = "512KiB"\n'
DEADLINE = """
[[rule]]
name = "hangs"
on = "blocked"
threshold = "300ms"
when = "deadline"
match = { exe = ["/usr/bin/bash"] }
"""
GROWS = '[[rule]]\nname = "grows"\non = "memory"\nrss_above = "96MiB"\n'

SERVICE = """
import ctypes, os, socket, sys, threading, time
how, port, closed, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
database = socket.create_connection(("127.0.0.1", port))
for _ in range(5):
    try:
        socket.create_connection(("127.0.0.1", closed))
    except ConnectionRefusedError:
        pass
open(path).close()
for _ in range(3):
    try:
        open(path + ".missing")
    except FileNotFoundError:
        pass
def work():
    ctypes.CDLL(None).prctl(15, b"worker")
    time.sleep(0.02)
for _ in range(4):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
database.settimeout(0.05)
try:
    database.recv(1)
except TimeoutError:
    pass
for _ in range(40):
    null = os.open("/dev/zero", os.O_RDONLY)
for number in range(60000):
    os.read(null, 1 + number % 2)
if how == "crash":
    ctypes.string_at(0)
print("ready", flush=True)
if how == "grows":
    kept = [bytes(b"x") * (1 << 20) for _ in range(128)]
    time.sleep(60)
kept = []
while True:
    kept.append(b"x" * (1 << 20))
"""


@pytest.fixture
def peer():
    """Something that accepts connections and says nothing; and the port of something that does not listen."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]
        other.close()
        kept = []

        def accept():
            try:
                while True:
                    kept.append(server.accept()[0])
            except OSError:
                pass

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], closed
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def facts_of(incident):
    return [json.loads(line) for line in incident.text("facts.jsonl").splitlines()]


def of_kind(facts, kind, **wanted):
    return [fact for fact in facts if fact["kind"] == kind and all(fact[key] == value for key, value in wanted.items())]


def expect_the_service(incident, port, closed, path):
    facts = facts_of(incident)
    (database,) = of_kind(facts, "peer", what=f"127.0.0.1:{port}", name="connect")
    (refused,) = of_kind(facts, "peer", what=f"127.0.0.1:{closed}", name="connect")
    assert (database["met"], database["failed"]) == (1, 0)
    assert (refused["met"], refused["failed"], refused["error"]) == (5, 5, "ECONNREFUSED")
    (failure,) = of_kind(facts, "failure", name="connect", what="ECONNREFUSED")
    assert failure["met"] == failure["minute"] == failure["hour"] == 5
    (opened,) = of_kind(facts, "path", what=path)
    (missing,) = of_kind(facts, "path", what=path + ".missing")
    assert (opened["met"], opened["failed"]) == (1, 0) and (missing["met"], missing["failed"]) == (3, 3)
    (workers,) = of_kind(facts, "thread", what="worker")
    assert workers["met"] == 4
    assert of_kind(facts, "slow", name="poll") or of_kind(facts, "slow", name="recvfrom")
    assert not [call for call in incident.calls(incident.process["pid"]) if call["path"] == path], "it is washed away"
    return database, missing


@pytest.fixture
def service(tmp_path, peer):
    script, opened = tmp_path / "service.py", tmp_path / "opened.conf"
    script.write_text(SERVICE)
    opened.touch()
    return lambda how: ("/usr/bin/python3", script, how, *map(str, peer), opened), (*peer, str(opened))


def test_a_crash_has_what_a_loop_of_reads_has_washed_away(daemon, service):
    argv, what = service
    watcher = daemon(config=SMALL)
    incident = watcher.explained_incident(run(*argv("crash")).pid)
    database, missing = expect_the_service(incident, *what)
    port, closed, path = what
    info = watcher.ctl.text("info", incident.id)
    assert f"127.0.0.1:{port}  connect, once, " in info
    assert f"127.0.0.1:{closed}  connect, 5 times, " in info
    assert "connect  ECONNREFUSED, 5 times" in info
    assert f"{path}.missing  openat, 3 times, " in info and "failed (ENOENT)" in info
    timeline = watcher.ctl.text("timeline", incident.id, "--kind", "fact")
    assert f"· connect 127.0.0.1:{port}" in timeline
    assert f"· openat {path}.missing = -1 ENOENT (3 times within " in timeline
    (line,) = [event for event in incident.events("fact") if event["what"] == path + ".missing"]
    assert (line["t_ns"], line["first_ns"], line["met"]) == (missing["last_ns"], missing["first_ns"], 3)
    assert incident.quality["accounts"]["facts"]["forgotten"] == 0
    files = in_gdb(incident, "incident files")
    assert f"openat {path}.missing = -1 ENOENT (3 times within " in files
    assert database["first_ns"] == database["last_ns"] < incident.record["clocks"]["trigger_ns"]


def in_gdb(incident, *commands):
    words = [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "-nx", "-q", "-batch", "-x", incident.path / "gdb/open.gdb", *words],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def test_memory_that_grows(daemon, service):
    argv, what = service
    watcher = daemon(rules=GROWS, config=SMALL)
    growing = start(*argv("grows"))
    try:
        incident = watcher.incident(growing.pid)
    finally:
        growing.kill()
        growing.wait()
    expect_the_service(incident, *what)
    levels = [int(fact["what"]) for fact in of_kind(facts_of(incident), "memory")]
    assert min(levels) < 40 << 20 and max(levels) > 64 << 20
    reached = [event["t_ns"] for event in incident.events("fact") if event["fact"] == "memory"]
    assert len(reached) == len(levels) and reached == sorted(reached)


def test_a_program_in_a_call_says_with_whom(daemon):
    """The listener's queue is full: connect(2) waits, for whom stands at the thread."""
    watcher = daemon(rules=DEADLINE)
    with socket.socket() as listener, ExitStack() as filling:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(8):
            one = filling.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        hanging = start("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        try:
            incident = watcher.incident(hanging.pid)
        finally:
            hanging.kill()
            hanging.wait()
    call = incident.triggers["syscall"]
    assert call["name"] == "connect" and f"sin_port=htons({port})" in call["args"][1]


def test_hostile_names_are_shown_as_they_are_and_do_nothing(daemon):
    watcher = daemon(config=SMALL)
    incident = watcher.incident(run(compiled("hostile_names.c", "-O1")).pid)
    facts = facts_of(incident)
    assert [fact for fact in of_kind(facts, "path") if fact["what"].startswith("/tmp/\x1b[31m\n")]
    assert [fact for fact in of_kind(facts, "peer") if "\x1b]0;owned" in fact["what"]]
    for shown in (watcher.ctl.text("info", incident.id), watcher.ctl.text("timeline", incident.id, "--kind", "fact")):
        assert "owned" in shown or "/tmp/" in shown
        assert not [char for char in shown if char < " " and char != "\n" or char == "\x7f"]
        assert "\n/x" not in shown
    watcher.ctl.text("verify", incident.id)


EVENT_LOOP = """
import os, select, socket
one, other = socket.socketpair()
loop = select.epoll()
loop.register(one, select.EPOLLIN | select.EPOLLRDHUP)
loop.register(other, select.EPOLLOUT)
other.send(b"x")
loop.poll()
print(loop.fileno(), one.fileno(), other.fileno(), flush=True)
os.abort()
"""


def test_events_of_epoll_stand_at_their_calls(recorder):
    ended = run("/usr/bin/python3", "-c", EVENT_LOOP)
    loop, one, other = map(int, ended.lines[0].split())
    calls = [line for line in recorder.incident(ended.pid).timeline if line["kind"] == "syscall"]
    added = [call["args"] for call in calls if call["name"] == "epoll_ctl"][-2:]
    assert [args[0].split("<")[0] for args in added] == [str(loop)] * 2
    given = [re.sub(r", u64=\d+", "", args[3]) for args in added]  # Python sets the lower half alone
    assert given == [f"{{events=EPOLLIN|EPOLLRDHUP, data={{u32={one}}}}}", f"{{events=EPOLLOUT, data={{u32={other}}}}}"]
    (ready,) = [call["args"][1] for call in calls if call["name"] == "epoll_wait"][-1:]
    taken = [f"{{events=EPOLLIN, data={{u32={one}}}}}", f"{{events=EPOLLOUT, data={{u32={other}}}}}"]
    assert re.sub(r", u64=\d+", "", ready) in (f"[{taken[0]}, {taken[1]}]", f"[{taken[1]}, {taken[0]}]")


def test_who_makes_up_paths_forgets_its_own(daemon):
    """Another user's program has opened a file each nanosecond, nearly; a quiet one's history stays."""
    watcher = daemon(config='[record]\nfacts = "256KiB"\n')
    quiet = start("/usr/bin/python3", "-c", "open('/etc/hostname').close()\nprint('ready', flush=True)\ninput()\nimport os\nos.abort()",
                  stdin=subprocess.PIPE)  # fmt: skip
    try:
        assert quiet.stdout.readline() == b"ready\n"
        made = "import os\nfor i in range(60000):\n try: os.open(f'/made/up/{i}', 0)\n except OSError: pass\nos.abort()"
        as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
        loud = watcher.incident(run(*as_nobody, "/usr/bin/python3", "-c", made).pid)
        forgotten = loud.quality["accounts"]["facts"]["forgotten"]
        assert forgotten > 50_000, "of 256 KiB"
        quiet.communicate(b"\n", timeout=PATIENCE)
    finally:
        quiet.kill()
        quiet.wait()
    incident = watcher.incident(quiet.pid)
    assert of_kind(facts_of(incident), "path", what="/etc/hostname")


def test_an_exec_and_a_fork_are_remembered(daemon):
    program = "import os, subprocess\nfor _ in range(30): subprocess.run(['/bin/true'])\nfor _ in range(9): subprocess.run(['/bin/false'])\nos.abort()"
    watcher = daemon()
    died = run("/usr/bin/env", "/usr/bin/python3", "-c", program)
    assert died.status == -signal.SIGABRT
    facts = facts_of(watcher.incident(died.pid))
    assert sum(fact["met"] for fact in of_kind(facts, "child")) == 39
    exits = of_kind(facts, "child_exit")
    assert sum(fact["met"] for fact in exits if fact["status_text"] == "exited 0") == 30
    assert sum(fact["met"] for fact in exits if fact["status_text"] == "exited 1") == 9
    assert [fact for fact in of_kind(facts, "exec") if fact["what"] == "/usr/bin/python3"]
    assert os.path.basename(of_kind(facts, "signal", what="SIGCHLD")[0]["sender"]) in ("true", "false")


def test_a_reload_forgets_nothing(daemon):
    """Other rules are about the process now; what it did before stands in its incident all the same."""
    watcher = daemon()
    quiet = start("/usr/bin/perl", "-e", 'open(F, "</etc/hostname"); close F; $| = 1; print "ready\\n"; <STDIN>; kill "SEGV", $$; sleep 60',
                  stdin=subprocess.PIPE)  # fmt: skip
    try:
        assert quiet.stdout.readline() == b"ready\n"
        reload(watcher, '[[rule]]\nname = "another"\non = "signal"\nmatch = { exe = ["/usr/bin/perl"] }\n')
        quiet.communicate(b"\n", timeout=PATIENCE)
    finally:
        quiet.kill()
        quiet.wait()
    incident = watcher.incident(quiet.pid)
    assert incident.record["rule"] == "another"
    (opened,) = of_kind(facts_of(incident), "path", what="/etc/hostname")
    assert opened["met"] == 1
