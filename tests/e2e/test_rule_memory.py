"""Rules about resident memory, with a program that leaks."""

from lib.programs import victim
from lib.victims import running


def rule(more):
    return f'[[rule]]\nname = "memory"\non = "memory"\n{more}\nmatch = {{ comm = ["trouble"] }}\nlimit = {{ cooldown = "1h", by = "process" }}\n'


def test_more_than(daemon):
    watcher = daemon(rules=rule('rss_above = "64MiB"'))
    with running(victim("trouble"), "grow", "96", "0", stdin=-1) as process:
        incident = watcher.incident(process.pid)
    memory = incident.record["memory"]
    assert memory["rss"] > 64 << 20
    assert incident.record["memory"]["rss_bytes"]["total"] > 64 << 20
    assert memory["peak_rss_bytes"] >= max(memory["rss"], memory["rss_bytes"]["total"])
    assert not any(thread["crashed"] for thread in incident.threads)


def test_growth_within_a_time(daemon):
    watcher = daemon(rules=rule('growth = "32MiB"\nwithin = "20s"'))
    with running(victim("trouble"), "wait", stdin=-1), running(victim("trouble"), "grow", "200", "20", stdin=-1) as leaker:
        incident = watcher.incident(leaker.pid)
    memory = incident.record["memory"]
    assert memory["growth"] >= 32 << 20
    assert len(memory["samples"]) >= 2
    assert memory["samples"][0]["rss"] < memory["samples"][-1]["rss"]
    assert len(watcher.incidents()) == 1
