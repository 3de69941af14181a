"""Waits for memory: in a memory cgroup here, of the whole host in the virtual machine."""

from lib.cgroup import inside, limited_memory
from lib.victims import run

LIMIT = 24 << 20


def rule(more):
    return f'[[rule]]\nname = "reclaim"\non = "reclaim"\n{more}\nlimit = {{ cooldown = "1h" }}\n'


def write_much(tmp_path, group):
    """Four times the limit in page cache, charged to the group as it is written."""
    return run(*inside(group, "dd", "if=/dev/zero", f"of={tmp_path}/big", "bs=1M", "count=96"))


def test_a_cgroup_that_is_short(daemon, tmp_path):
    watcher = daemon(rules=rule('count = 20\nwindow = "1m"\nby = "host"'))
    with limited_memory("incidentd-test-reclaim", LIMIT) as group:
        writer = write_much(tmp_path, group)
    incident = watcher.incident(writer.pid)
    reclaim = incident.record["reclaim"]
    assert incident.record["kind"] == "reclaim"
    assert reclaim["scope"] == "cgroup"
    assert reclaim["count"] >= 20
    assert incident.record["matches"]["total"] >= 20
    top = reclaim["top"][0]
    assert top["pid"] == writer.pid and top["comm"] == "dd"
    assert top["stalled_ns"] > 0
    symbols = " ".join(frame["symbol"] or "" for frame in top["kernel_stack"])
    assert "try_charge" in symbols or "reclaim" in symbols, symbols
    assert "MemFree" in incident.text("host/before/meminfo")
    assert reclaim["host_before_ns"] <= incident.record["clocks"]["monotonic_ns"]


def test_stalled_time(daemon, tmp_path):
    watcher = daemon(rules=rule('stalled = "1ms"\nwindow = "1m"\nby = "process"'))
    with limited_memory("incidentd-test-stalled", LIMIT) as group:
        writer = write_much(tmp_path, group)
    incident = watcher.incident(writer.pid)
    assert incident.record["matches"]["value_total"] >= 1_000_000
