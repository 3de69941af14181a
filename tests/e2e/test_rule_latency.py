"""Rules about functions that take too long: at their return, while they run, and with a core."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from lib.daemon import CRASH_RULE
from lib.postgres import SERVER, postgres, probe
from lib.programs import victim
from lib.victims import finish, running, start
from lib.wait import until

ALLOW = "[safety]\nallow_dump = true\n"


def rule(probe_text, threshold, more="", match=None, limit='limit = { cooldown = "1h", by = "process" }'):
    match = match or f'match = {{ exe = ["{SERVER}"] }}'
    return (
        f'[[rule]]\nname = "slow"\non = "latency"\n{probe_text}\nthreshold = "{threshold}"\n{more}\n{match}\n'
        f"{limit}\n"
    )


def of_slow(symbol, binary=None):
    return f'probe = "uprobe:{binary or victim("slow")}:{symbol}"'


def state(watcher):
    (found,) = [r for r in watcher.ctl.json("status")["rules"] if r["name"] == "slow"]
    return found["state"], found["reason"]


SLOW = 'match = { comm = ["slow"] }'


def run_slow(*arguments, binary=None):
    """It waits for a line before it begins, and for another before it ends.

    Its first calls may be over before the probe is put; there are more of them.
    """
    return finish(start(binary or victim("slow"), *arguments, stdin=subprocess.PIPE), b"\n\n")


@pytest.fixture
def server(tmp_path):
    directory = tmp_path / "postgres"
    directory.mkdir()
    with postgres(directory) as running:
        yield running


def test_a_slow_query_at_its_return(daemon, server):
    watcher = daemon(rules=rule(f'probe = "uprobe:{SERVER}:{probe()}"', "200ms"))
    assert state(watcher)[0] in ("active", "degraded")
    assert server.query("select 1") == "1"
    assert server.query("select pg_backend_pid() from pg_sleep(0.5)").isdigit()
    incident = until(watcher.incidents, "an incident", watcher.tail)[0]
    latency = incident.record["latency"]
    assert incident.record["kind"] == "latency"
    assert latency["elapsed_ns"] >= 500_000_000 and not latency["in_flight"]
    assert latency["spent"]["blocked_ns"] >= 400_000_000
    assert latency["calls"]["count"] >= 1
    assert "epoll_wait" in [call["name"] for call in latency["calls"]["by_name"]]
    assert incident.triggers["stack"]["bytes"] > 0
    assert server.query("select 2") == "2", "the server goes on"


def test_a_slow_query_while_it_runs(daemon, server):
    watcher = daemon(rules=rule(f'probe = "uprobe:{SERVER}:{probe()}"', "300ms", 'when = "deadline"'))
    client = server.start_query("select pg_backend_pid() from pg_sleep(6)")

    def told():
        """A query that began before all code of its process was watched is not told, so another one is asked."""
        nonlocal client
        if client.poll() is not None and not watcher.incidents():
            client = server.start_query("select pg_backend_pid() from pg_sleep(6)")
        return watcher.incidents()

    incident = until(told, "an incident", watcher.tail)[0]
    assert client.poll() is None, "the query still runs"
    latency = incident.record["latency"]
    assert latency["in_flight"] and latency["when"] == "deadline"
    assert latency["elapsed_ns"] >= 300_000_000
    assert latency["calls"]["in_flight"]["name"] == "epoll_wait"
    assert any("poll" in (frame["symbol"] or "") for frame in incident.triggers["kernel_stack"])
    output, _ = client.communicate(timeout=60)
    assert output.decode().strip() == str(incident.process["pid"]), "and comes to its end"
    assert len(watcher.incidents()) == 1, "one incident a call"


def test_from_one_static_probe_to_another(daemon, server):
    """Debian's server is built with its static probes."""
    usdt = f"usdt:{SERVER}:postgresql:query__"
    watcher = daemon(rules=rule(f'enter = "{usdt}start"\nleave = "{usdt}done"', "200ms"))
    assert state(watcher)[0] == "active", state(watcher)
    assert server.query("select 1") == "1"
    assert server.query("select 2 from pg_sleep(0.5)") == "2"
    latency = until(watcher.incidents, "an incident", watcher.tail)[0].record["latency"]
    assert latency["elapsed_ns"] >= 500_000_000
    assert latency["probe"].endswith("query__start") and latency["leave"].endswith("query__done")
    assert len(watcher.incidents()) == 1


def test_a_slow_query_dumps_core(daemon, server, coredump_host):
    watcher = daemon(
        rules=rule(f'probe = "uprobe:{SERVER}:{probe()}"', "300ms", 'when = "deadline"\ndump = "SIGABRT"') + CRASH_RULE,
        config=ALLOW,
    )
    client = server.start_query("select pg_sleep(30)")
    client.communicate(timeout=60)
    assert client.returncode != 0, "its backend is gone"
    pid = until(watcher.incidents, "an incident", watcher.tail)[0].process["pid"]
    incident = watcher.joined_incident(pid)
    assert incident.record["kind"] == "latency"
    dump = incident.record["dump"]
    assert dump["sent"] and dump["by"] == "daemon", dump
    assert incident.record["core"]["file"], incident.record["core"]
    assert incident.record["core"]["join"] in ("exact", "window")
    until(lambda: server.query("select 3") == "3", "the server to recover")


def test_the_kernel_dumps_it_in_the_slow_call_itself(daemon, coredump_host):
    """At the return of the slow call, before the thread has gone on."""
    watcher = daemon(
        rules=rule(of_slow("probed_sleep"), "100ms", 'dump = "SIGABRT"', SLOW, limit="") + CRASH_RULE, config=ALLOW
    )
    assert state(watcher)[0] in ("active", "degraded")
    died = run_slow("sleep", "20", "300")
    assert died.status == -signal.SIGABRT
    incident = watcher.incident(died.pid)
    dump = incident.record["dump"]
    assert dump["asked"] and dump["sent"], dump
    assert dump["by"] == "kernel"


def test_a_library_by_its_soname(daemon, tmp_path):
    """Its file has another name (Debian's libz.so.1 is a link)."""
    deflater = shutil.copy(Path("/usr/bin/python3").resolve(), tmp_path / "deflater")
    watcher = daemon(rules=rule('probe = "uprobe:libz.so.1:deflate"', "100us", "", 'match = { comm = ["deflater"] }'))
    with running(deflater, "-c", "import zlib\nwhile True: zlib.compress(b'x' * 3000000)"):
        incident = until(watcher.incidents, "an incident", watcher.tail)[0]
    assert " in deflate" in incident.record["summary"]


def test_a_missing_symbol(daemon):
    watcher = daemon(rules=rule(of_slow("no_such_function"), "10ms", "", SLOW))
    assert state(watcher)[0] == "unavailable"
    assert "no_such_function" in state(watcher)[1]


def test_a_binary_replaced_on_disk_is_probed_again(daemon, tmp_path):
    binary = tmp_path / "deployed"
    shutil.copy(victim("slow"), binary)
    watcher = daemon(
        rules=rule(of_slow("probed_sleep", binary), "50ms", "", f'match = {{ exe = ["{binary}"] }}')
    )
    first = run_slow("sleep", "20", "100", binary=str(binary))
    watcher.incident(first.pid)
    fresh = tmp_path / "fresh"
    shutil.copy(victim("slow"), fresh)
    fresh.rename(binary)
    second = run_slow("sleep", "40", "100", binary=str(binary))
    watcher.incident(second.pid)
