"""Many incidents that are all alike: first whole, then light, then counted."""

import signal

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


def test_crashes_while_nobody_reads(daemon):
    """What finds no room in the ring buffer is told apart by the process table: no crash is lost or told of twice."""
    watcher = daemon(rules=CRASH_RULE, config=CONFIG + '[record]\nring_buffer = "256KiB"\n')
    run(victim("storm"), "1")  # whoever comes first says where it struck
    until(lambda: watcher.incidents(), "the first", watcher.tail)
    watcher.process.send_signal(signal.SIGSTOP)
    run(victim("storm"), "200")
    watcher.process.send_signal(signal.SIGCONT)

    def settled():
        said = watcher.ctl.json("status")["incidents"]
        return said["committed"] + said["counted"] >= 201 and not said["pending"] and said

    said = until(settled, "201 crashes to be accounted for", watcher.tail)
    assert (said["committed"], said["counted"], said["failed"]) == (3, 198, 0)
    (line,) = watcher.ctl.json("status")["signatures"]
    assert (line["seen"], line["full"], line["light"], line["counted"]) == (201, 2, 1, 198)
    lost = {loss["where"]: loss["count"] for loss in watcher.ctl.json("status")["losses"]}
    assert lost["ring buffer: death event"] > 0
    without_stack = sum(lost.get(f"ring buffer: {what}", 0) for what in ("thread event", "stack of a thread"))
    assert without_stack >= lost["ring buffer: death event"]


def test_more_than_can_wait_to_be_written_is_kept_light(daemon):
    """Nothing is lost for want of memory, and each says why it has less."""
    watcher = daemon(rules=CRASH_RULE, config="[storm]\nfull = 2000\n[capture]\nanalyse = false\n")
    run(victim("storm"), "900")

    def settled():
        said = watcher.ctl.json("status")["incidents"]
        return said["committed"] + said["failed"] >= 900 and said

    said = until(settled, "900 crashes to be written", watcher.tail)
    assert (said["committed"], said["failed"]) == (900, 0)
    for incident in watcher.incidents():
        reasons = [loss["reason"] for loss in incident.quality["losses"] if "kept light" in loss["reason"]]
        assert bool(reasons) == incident.record["alike"]["light"]
