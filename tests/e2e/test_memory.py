"""The address space's growth is kept with its sizes."""

from lib.programs import victim
from lib.victims import run

# join() returns a little before the thread has ended
THREADS_THAT_MAP = """
import mmap, os, threading
for i in range(3):
    thread = threading.Thread(target=lambda: mmap.mmap(-1, 4 << 20))
    thread.start()
    thread.join()
    while len(os.listdir("/proc/self/task")) > 1:
        pass
os.abort()
"""


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


def test_growth_adds_up(recorder):
    """Its own four calls, and what the loader and libc did before."""
    died = run(victim("grower"))
    incident = recorder.incident(died.pid)
    pages = incident.record["pages"]
    events = incident.memory_events(died.pid)
    assert pages["complete"] is True, pages["incomplete_because"]
    assert pages["from_ns"] == incident.process["exec_ns"]
    assert sum(call["calls"] for call in pages["by_call"].values()) == len(events)
    for name, call in pages["by_call"].items():
        assert call["bytes"] == sum(e["memory"]["delta"] for e in events if e["name"] == name)
    assert pages["by_call"]["mremap"] == {"calls": 1, "bytes": 8 << 20}
    assert pages["growth_bytes"] == sum(e["memory"]["delta"] for e in events)
    curve = pages["rss_curve"]
    assert pages["rss_points"] == len(curve)
    assert [point["t_ns"] for point in curve] == sorted(point["t_ns"] for point in curve)
    assert curve[-1]["rss_bytes"] == incident.record["memory"]["rss_bytes"]["total"]
    assert curve[-1]["rss_bytes"] - curve[0]["rss_bytes"] >= 2 << 20


def test_page_shows_what_it_grew_by(recorder):
    died = run(victim("grower"))
    page = recorder.ctl.text("info", recorder.incident(died.pid).id)
    assert " resident, " in page
    assert "mremap +8.0 MiB in 1" in page


def test_threads_that_ended_are_missed(recorder):
    """What a thread did before it ended nobody can say any more."""
    died = run("/usr/bin/python3", "-c", THREADS_THAT_MAP)
    pages = recorder.incident(died.pid).record["pages"]
    assert pages["complete"] is False
    assert "3 threads ended before, and took their records with them" in pages["incomplete_because"]
    assert pages["from_ns"] > recorder.incident(died.pid).process["exec_ns"]
