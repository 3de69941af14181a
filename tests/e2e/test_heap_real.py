"""Real programs under level "history" for a minute of load: the account adds up, and fits what they say themselves."""

import os
import re
import shutil
import signal
import subprocess
from contextlib import ExitStack

import pytest

from lib.heap import Heap
from lib.heap_victim import HeapVictim, config, until_recorded
from lib.postgres import BIN, SERVER, postgres
from lib.victims import running
from lib.wait import PATIENCE, until

LOAD = 60  # seconds
SLACK = 4 << 20  # what an allocator keeps in caches of its own while it counts

PROGRAMS = [os.path.realpath(program) for program in ("/usr/bin/python3", "/usr/bin/redis-server", SERVER)]
RULE = f"""
[[rule]]
name = "heap"
on = "signal"
match = {{ exe = {PROGRAMS} }}
context = {{ allocations = "history" }}
"""

PYTHON = """
import ctypes, json, sys, threading, time
seconds = float(sys.argv[1])
names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in names]
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Info
def used():
    info = mallinfo2()
    return info.uordblks + info.hblkhd
print("ready", flush=True)
sys.stdin.readline()
print("used", used(), flush=True)
kept = []
def work():
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = {str(i): [i] * 100 + ["x" * (i * 7 % 3000)] for i in range(300)}
        text = json.dumps(data)
        assert json.loads(text) == data
        kept.append(bytearray(700 + len(kept) % 5000))
        if len(kept) > 2000:
            del kept[::2]
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("used", used(), flush=True)
print("loaded", flush=True)
sys.stdin.readline()
"""

POSTGRES = f"""
set statement_timeout = '{LOAD + 5 * PATIENCE}s';
create temp table t (i int, x text);
do $$
declare ending timestamptz := clock_timestamp() + interval '{LOAD} s';
begin
    while clock_timestamp() < ending loop
        insert into t select i, repeat(md5(i::text), 1 + i % 60) from generate_series(1, 500) i;
        perform count(*), max(length(a.x || b.x)) from t a join t b using (i);
        execute 'select array_agg(x order by x desc) from t';
        if (select count(*) from t) > 3000 then truncate t; end if;
    end loop;
end $$;
select 'loaded';
"""


def chunk(size):
    """glibc's, of an allocation: malloc/malloc.c, request2size()."""
    return max(32, (size + 8 + 15) & ~15)


class Redis:
    def __init__(self, stack, directory):
        directory.mkdir()
        self.socket = directory / "socket"
        options = ("--port", "0", "--save", "", "--crash-log-enabled", "no", "--daemonize", "no")
        place = ("--dir", str(directory), "--unixsocket", str(self.socket))
        self.process = stack.enter_context(running("redis-server", *options, *place))
        until(self.socket.exists, "redis to listen")

    def allocated(self):
        """Bytes, as jemalloc counts them."""
        said = subprocess.run(["redis-cli", "-s", self.socket, "info", "memory"], capture_output=True, text=True, check=True)
        return int(re.search(r"allocator_allocated:(\d+)", said.stdout)[1])

    def load(self, stack, tests):
        command = ("redis-benchmark", "-s", str(self.socket), "-q", "-l", "-r", "20000", "-d", "300", "-c", "8", "-t", tests)
        return stack.enter_context(running(*command, stdout=subprocess.DEVNULL))


def within(growth, live, end):
    """What the program had when it was first asked may live on unseen; all else that lives is known."""
    return growth - SLACK <= live <= end + SLACK


@pytest.mark.slow
def test_a_minute_of_load(daemon, tmp_path):
    if not BIN.is_dir() or not shutil.which("redis-benchmark"):
        pytest.skip("redis-server or postgresql-15 is not installed")
    watcher = daemon(rules=RULE, config=config("2GiB", live=524288, stacks=8192, history=65536))
    (tmp_path / "postgres").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(postgres(tmp_path / "postgres"))
        psql = server.as_postgres("psql", "-X", "-q", "-A", "-t", "-h", server.directory, "-d", "postgres",
                                  "-v", "ON_ERROR_STOP=1", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        stack.callback(psql.kill)
        psql.stdin.write(b"select 'backend ' || pg_backend_pid();\n")
        psql.stdin.flush()
        backend = int(psql.stdout.readline().split()[1])
        redis = Redis(stack, tmp_path / "redis")
        python = HeapVictim("-c", PYTHON, LOAD, program="/usr/bin/python3")
        stack.callback(python.process.kill)
        for pid in (python.pid, redis.process.pid, backend):
            until_recorded(watcher, pid)

        redis_before = redis.allocated()
        loads = [redis.load(stack, tests) for tests in ("set,get,lpush,rpop,lrange_100", "sadd,hset,spop,zadd,mset")]
        psql.stdin.write(POSTGRES.encode())
        psql.stdin.flush()
        python.until("ready").go().until("loaded")
        assert any(line.strip() == b"loaded" for line in psql.stdout), "psql ended early"
        for one in loads:
            one.kill()
            one.wait()
        redis_after = redis.allocated()
        for pid in (python.pid, redis.process.pid, backend):
            os.kill(pid, signal.SIGABRT)
        heaps = {name: Heap(watcher.incident(pid)) for name, pid in
                 (("python3", python.pid), ("redis", redis.process.pid), ("postgres", backend))}

    for name, heap in heaps.items():
        print(name, {key: value for key, value in heap.account.items() if value}, heap.json["cost"])
        heap.assert_adds_up()
        assert heap.json["level"] == "history", name
        assert heap.json["history"]["written"] > len(heap.history), name
        assert len(heap.history) == 65536, name
        for what in ("lost", "no_frame", "unentered", "strangers"):
            assert heap.account[what] == 0, (name, heap.account)
    before, after = (int(words[1]) for words in python.said if words[0] == "used")
    assert within(after - before, sum(chunk(live.size) for live in heaps["python3"].live), after)
    assert within(redis_after - redis_before, heaps["redis"].account["live_bytes"], redis_after)
