"""The address space's growth is kept with its sizes."""

from lib.programs import victim
from lib.victims import run


def test_growth(recorder):
    died = run(victim("grower"))
    incident = recorder.incident(died.pid)
    recorded = {(event["name"], event["memory"]["delta"]) for event in incident.memory_events(died.pid)}
    for line in died.lines:
        call, delta, _ = line.split()
        assert (call, int(delta)) in recorded, line


def test_resident_memory_grows_with_what_was_touched(recorder):
    died = run(victim("grower"))
    events = recorder.incident(died.pid).memory_events(died.pid)
    before = next(e for e in events if e["name"] == "mmap" and e["memory"]["delta"] == 8 << 20)
    after = next(e for e in events if e["name"] == "mremap")
    assert after["memory"]["rss"] - before["memory"]["rss"] >= 2 << 20
