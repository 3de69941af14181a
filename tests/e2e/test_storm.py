"""Many incidents that are all alike: first whole, then light, then counted."""

from lib.daemon import CRASH_RULE
from lib.programs import victim
from lib.victims import run
from lib.wait import until

CONFIG = '[storm]\nfull = 2\nlight = 1\nwindow = "1h"\n'


def test_full_light_counted(daemon):
    watcher = daemon(rules=CRASH_RULE, config=CONFIG)
    pids = [run(victim("die"), "null-read").pid for _ in range(5)]
    incidents = [watcher.incident(pid) for pid in pids[:3]]
    assert [i.record["alike"]["light"] for i in incidents] == [False, False, True]
    assert incidents[2].record["alike"]["seen"] == 3
    assert (incidents[0].path / "host" / "meminfo").exists()
    assert not (incidents[2].path / "host" / "meminfo").exists()
    status = until(
        lambda: (s := watcher.ctl.json("status"))["incidents"]["counted"] == 2 and s, "two counted", watcher.tail
    )
    (line,) = status["signatures"]
    assert (line["seen"], line["full"], line["light"], line["counted"]) == (5, 2, 1, 2)
    other = run(victim("die"), "abort")
    assert not watcher.incident(other.pid).record["alike"]["light"], "another signature"
    assert len(watcher.incidents()) == 4
