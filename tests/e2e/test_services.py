"""What `info` says first of a service in trouble, whatever the trouble and the language: its last lines, and whom it talks to."""

import socket
from contextlib import ExitStack

import pytest

from lib.cgroup import cgroup, inside, limited_memory
from lib.compiled import compiled
from lib.daemon import Daemon
from lib.journal import journal
from lib.victims import start
from lib.wait import until

pytestmark = pytest.mark.usefixtures("coredump_host")

UNIT = "incidentd-service.service"

RULES = f"""
[[rule]]
name = "crash"
on = "signal"
signals = ["SIGSEGV"]
match = {{ cgroup = "/system.slice/{UNIT}" }}

[[rule]]
name = "slow"
on = "latency"
probe = "uprobe:/usr/lib/x86_64-linux-gnu/libc.so.6:usleep"
threshold = "200ms"
when = "deadline"
match = {{ cgroup = "/system.slice/{UNIT}" }}
limit = {{ cooldown = "1h", by = "process" }}

[[rule]]
name = "oom"
on = "oom"

[[rule]]
name = "memory"
on = "memory"
rss_above = "128MiB"
match = {{ cgroup = "/system.slice/{UNIT}" }}
limit = {{ cooldown = "1h", by = "process" }}
"""

PYTHON = """
import ctypes, os, socket, sys
mode = sys.argv[1]
database = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
print("service: connected to the database\\nservice: waiting for work\\nready", os.getpid(), flush=True)
sys.stdin.readline()
database.send(b"select 1")
print("service: about to", mode, flush=True)
libc = ctypes.CDLL(None)
if mode == "crash":
    ctypes.string_at(0)
while mode == "slow":
    libc.usleep(900000)
held = []
while True:
    held.append(bytearray(b"x" * (1 << 20)))
    libc.usleep(2000)
"""

# what a rule's service does, and how much memory it may have
TROUBLES = {"crash": ("crash", None), "slow": ("slow", None), "oom": ("grow", 64 << 20), "memory": ("grow", None)}


@pytest.fixture(name="watcher", scope="module")
def one_daemon(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("services"), rules=RULES).start()
    yield daemon
    daemon.stop()


@pytest.fixture(name="unit", scope="module")
def unit_of_the_services(coredump_host):
    with cgroup(f"system.slice/{UNIT}") as directory:
        yield directory


@pytest.fixture(name="database")
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def services(language, mode, port):
    program = ("/usr/bin/python3", "-c", PYTHON) if language == "Python" else (compiled("service.cpp"),)
    return (*program, mode, str(port))


@pytest.mark.parametrize("language", ["Python", "C++"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_info_has_its_last_lines_and_its_peer(watcher, unit, database, trouble, language):
    mode, limit = TROUBLES[trouble]
    with ExitStack() as stack:
        argv = inside(unit, "systemd-cat", "-t", "shop", *services(language, mode, database))
        if limit:
            argv = inside(stack.enter_context(limited_memory("incidentd-service", limit)), *argv)
        process = start(*argv, stdin=-1, stdout=-3)
        stack.callback(process.wait)
        stack.callback(process.kill)
        until(lambda: f"ready {process.pid}" in journal(f"_PID={process.pid}"), "the service's lines in the journal")
        process.stdin.write(b"\n")
        process.stdin.flush()
        incident = watcher.spoken_incident(process.pid)
        assert incident.record["rule"] == trouble
        shown = watcher.ctl.text("info", process.pid)
    assert f"127.0.0.1:{database}" in shown, shown
    for line in ("service: connected to the database", "service: waiting for work", f"service: about to {mode}"):
        assert f"shop[{process.pid}]: {line}" in shown, shown
