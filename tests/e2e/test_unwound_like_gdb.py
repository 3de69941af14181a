"""The stacks of a bundle, unwound without a core, against gdb's of the real core of the same death."""

import os
import signal
import subprocess
import time

import pytest

from lib.backtrace import differences, gdb_frames
from lib.compiled import compiled
from lib.postgres import SERVER, postgres
from lib.victims import run, start
from lib.wait import PATIENCE, until

pytestmark = pytest.mark.usefixtures("coredump_host")

BUILDS = {
    "O0": ("-O0",),
    "O0 without frame pointers": ("-O0", "-fomit-frame-pointer"),
    "O2": ("-O2",),
    "O2 with frame pointers": ("-O2", "-fno-omit-frame-pointer"),
    "O3": ("-O3",),
    "O3 not PIE": ("-O3", "-no-pie", "-fno-pie"),
    "O2 static": ("-O2", "-static"),
    "O2 static PIE": ("-O2", "-static-pie"),
}
KINDS = ("threads", "sort", "handler", "call-null", "smash", "double-free")
COMPARED = []  # (what, frames, frames that differ), for the share that agrees


def compare(recorder, pid, program, tmp_path, what):
    recorder.joined_incident(pid)
    incident = recorder.explained_incident(pid)
    core = tmp_path / "core"
    recorder.ctl.text("core", pid, "-o", core)
    theirs = gdb_frames(program, core, tmp_path / "frames.py")
    assert incident.tids == set(theirs)
    wrong = {}
    for thread in incident.threads:
        differ = differences(thread, theirs[thread["tid"]], program)
        COMPARED.append((what, len(thread["stack"]["frames"]), len(differ)))
        if differ:
            wrong[thread["tid"]] = (thread["stack"]["how"], thread["stack"]["reason"], differ)
    assert not wrong
    return incident


@pytest.fixture(scope="module", autouse=True)
def share():
    yield
    frames, differ = sum(c[1] for c in COMPARED), sum(c[2] for c in COMPARED)
    deaths = len({c[0] for c in COMPARED})
    print(f"\n{deaths} deaths, {len(COMPARED)} threads, {frames} frames: {frames - differ} agree with gdb")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("build", BUILDS)
def test_our_own_programs(recorder, tmp_path, build, kind):
    program = compiled("faults.c", *BUILDS[build], "-fstack-protector-strong")
    died = run(program, kind)
    assert died.status < 0
    compare(recorder, died.pid, program, tmp_path, f"{build} {kind}")


@pytest.mark.parametrize("kind", ["runtime", "own", "number"])
@pytest.mark.parametrize("build", ["O0", "O2", "O2 static"])
def test_exceptions(recorder, tmp_path, build, kind):
    program = compiled("throws.cpp", *BUILDS[build])
    died = run(program, kind)
    compare(recorder, died.pid, program, tmp_path, f"C++ {build} {kind}")


@pytest.mark.parametrize(
    "code",
    [
        "import ctypes; ctypes.string_at(0)",
        "import os; os.abort()",
        "import threading, os; threading.Thread(target=lambda: __import__('ctypes').memset(8, 0, 4)).start()",
        "import faulthandler; faulthandler._stack_overflow()",
        "import re, os, signal; re.sub('a+', lambda m: os.kill(os.getpid(), signal.SIGSEGV) or '', 'aaa')",
    ],
)
def test_python(recorder, tmp_path, code):
    died = run("/usr/bin/python3", "-c", code)
    assert died.status < 0
    compare(recorder, died.pid, "/usr/bin/python3", tmp_path, f"python3 {code}")


@pytest.mark.parametrize(
    "code", ["print unpack 'p', pack('J', 16)", "sub f { $_[0] ? f($_[0] - 1) : kill 'ABRT', $$ } f(20)", "kill 'SEGV', $$"]
)
def test_perl(recorder, tmp_path, code):
    died = run("/usr/bin/perl", "-e", code)
    assert died.status < 0
    compare(recorder, died.pid, "/usr/bin/perl", tmp_path, f"perl {code}")


def test_redis(recorder, tmp_path):
    socket = str(tmp_path / "redis.sock")
    command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--crash-log-enabled", "no"]
    server = start(*command, stdout=subprocess.DEVNULL)
    until(lambda: os.path.exists(socket), "redis to listen")
    os.kill(server.pid, signal.SIGABRT)
    server.wait(PATIENCE)
    compare(recorder, server.pid, "/usr/bin/redis-check-rdb", tmp_path, "redis-server")


def test_postgresql(recorder, tmp_path_factory, tmp_path):
    with postgres(tmp_path_factory.mktemp("pg")) as server:
        query = server.start_query("select pg_backend_pid(), pg_sleep(60)")
        pid = until(lambda: server.query("select pid from pg_stat_activity where wait_event = 'PgSleep'"), "the query")
        time.sleep(0)
        os.kill(int(pid), signal.SIGSEGV)
        query.communicate(timeout=PATIENCE)
        compare(recorder, int(pid), SERVER, tmp_path, "postgres backend")


JITTED = """
import ctypes, mmap, os
code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("31c08b00c3"))  # xor %eax,%eax; mov (%rax),%eax; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
name = f"/tmp/perf-{os.getpid()}.map"
if os.path.lexists(name):  # of an earlier process of this number
    os.unlink(name)
with open(name, "w") as names:
    names.write(f"{address:x} 5 jitted_function\\n")
ctypes.CFUNCTYPE(ctypes.c_int)(address)()
"""


def test_generated_code_is_named_by_its_perf_map(recorder):
    died = run("/usr/bin/python3", "-c", JITTED)
    try:
        incident = recorder.explained_incident(died.pid)
    finally:
        os.unlink(f"/tmp/perf-{died.pid}.map")
    frame = incident.crashed["stack"]["frames"][0]
    assert (frame["symbol"], frame["module"]) == ("jitted_function", "jit/anon")
    assert incident.record["verdict"]["sentence"].startswith("null dereference: jitted_function() reads 4 bytes")
