"""Where probes on malloc stand, and where they do not: seen in the processes' own memory."""

import shutil

import pytest

from lib.daemon import CRASH_RULE
from lib.heap import Heap
from lib.heap_victim import Code, config, heap_victim, is_probed, is_untouched, rule
from lib.programs import victim
from lib.victims import running
from lib.wait import until


EVE, BOB = 4711, 4712


def reload_with(watcher, rules):
    (watcher.rules / "test.toml").write_text(rules)
    watcher.process.send_signal(1)


def test_a_rule_loaded_into_a_running_program(daemon):
    """The gap between its start and the recording is stated."""
    watcher = daemon()
    with heap_victim("window", 10, 20) as one:
        assert is_untouched(one.pid)
        one.go().until("between")  # before the rule
        reload_with(watcher, rule(victim("heap"), "history"))
        one.watched(watcher)
        one.go().until("done")
        one.die()
        incident = watcher.incident(one.pid)
    heap = Heap(incident)
    heap.assert_adds_up()
    assert heap.account["allocations"] == heap.account["live"] == 20
    assert {live.size for live in heap.live} == {200}
    assert heap.json["since_ns"] > heap.json["exec_ns"] > 0
    assert heap.json["since_ns"] < min(live.t_ns for live in heap.live)


@pytest.mark.parametrize("library", ["", "libjemalloc.so.2"])
def test_gone_with_the_last_rule(daemon, library):
    watcher = daemon(rules=rule(victim("heap"), "sizes"), config=config())
    with heap_victim("window", 10, 20, library=library, env={"LD_PRELOAD": library} if library else {}) as one:
        one.watched(watcher)
        reload_with(watcher, CRASH_RULE)
        until(lambda: is_untouched(one.pid), "the probes to be gone", watcher.tail)
        one.go().until("between")
        one.go().until("done")
        one.die()
        incident = watcher.incident(one.pid)
    assert not (incident.path / "heap.json").exists()


def test_gone_with_the_daemon(daemon):
    watcher = daemon(rules=rule(victim("heap"), "history"), config=config())
    with heap_victim("window", 10, 20) as one:
        one.watched(watcher)
        watcher.stop()
        until(lambda: is_untouched(one.pid), "the probes to be gone")
        one.go().until("between")
        one.go().until("done")


def test_a_killed_daemon_leaves_none(daemon):
    watcher = daemon(rules=rule(victim("heap"), "history"), config=config())
    with heap_victim("window", 10, 20) as one:
        one.watched(watcher)
        watcher.kill()
        until(lambda: is_untouched(one.pid), "the probes to be gone")


def test_others_have_none(daemon, tmp_path):
    """The same libc, the same program under another name, and a rule with less: not one byte is changed."""
    other = shutil.copy(victim("heap"), tmp_path / "other")
    rules = rule(victim("heap"), "history") + rule(str(other), "pages").replace('"heap"', '"other"')
    watcher = daemon(rules=rules, config=config())
    with heap_victim("window", 1, 1) as one, heap_victim("window", 1, 1, program=str(other)) as two:
        with heap_victim("-c", "print('ready', flush=True); input()", program="/usr/bin/python3") as three:
            one.watched(watcher)
            assert any(names for names in Code(two.pid).probed().values())  # it has the functions
            assert is_untouched(two.pid)
            assert is_untouched(three.pid)
            reload_with(watcher, CRASH_RULE)
            until(lambda: is_untouched(one.pid), "the probes to be gone", watcher.tail)
            reload_with(watcher, rules)
            one.watched(watcher)
            assert is_untouched(two.pid)
            assert is_untouched(three.pid)


def test_the_higher_of_two_levels(daemon):
    rules = rule(victim("heap"), "sizes") + rule(victim("heap"), "history").replace('"heap"', '"closer"')
    watcher = daemon(rules=rules, config=config())
    with heap_victim("window", 10, 20) as one:
        one.watched(watcher)
        one.go().until("between")
        one.go().until("done")
        one.die()
        heap = Heap(watcher.incident(one.pid))
    heap.assert_adds_up()
    assert heap.json["level"] == heap.json["asked"] == "history"


def test_the_heaps_of_one_user_give_way(daemon):
    """[heap] memory holds two processes.  The second of a user who has both gives way to another's, and says so."""
    watcher = daemon(rules=rule(victim("heap"), "history"), config=config("18MiB", live=1024, stacks=4096 - 64, history=1024))
    with heap_victim("window", 10, 20, user=EVE) as one, heap_victim("window", 10, 20, user=EVE) as two:
        one.watched(watcher)
        two.watched(watcher)
        with heap_victim("window", 10, 20, user=BOB) as his:
            his.watched(watcher)
            until(lambda: is_untouched(two.pid), "its probes to go", watcher.tail)
            two.die()
            heap = Heap(watcher.incident(two.pid))
            assert "another user's process" in heap.json["reason"]
            with heap_victim("window", 10, 20, user=EVE) as third:
                third.go().until("between")
                third.go().until("done")
                assert is_untouched(third.pid), "what they have is hers and his now"
        assert is_probed(one.pid)


def test_one_that_waits_beside_a_loop_of_forks(daemon):
    """Its user's processes use up what the kernel side tells of them in a second, and it makes no call at which it would
    tell later: it is found all the same."""
    # Each process that a rule may dump asks for its permit.
    dumps = (
        '[[rule]]\nname = "dumps"\non = "syscall"\nsyscall = ["openat"]\nerrno = ["ELOOP"]\ndump = "SIGABRT"\n'
        f"match = {{ uid = [{EVE}] }}\n"
    )
    rules, settings = rule(victim("heap"), "sizes") + dumps, config() + "[safety]\nallow_dump = true\n"
    watcher = daemon(rules=rules, config=settings)
    loop = "while :; do /bin/true; done"
    with running("sh", "-c", loop, user=EVE, cwd="/"), running("sh", "-c", loop, user=EVE, cwd="/"):
        refused = f"share of uid {EVE}: other events"
        until(lambda: refused in {loss["where"] for loss in watcher.ctl.json("status")["losses"]}, "refusals", watcher.tail)
        for _ in range(8):
            with heap_victim("window", 10, 20, user=EVE) as one:
                one.watched(watcher)


def test_no_memory_for_one_more(daemon):
    """[heap] memory holds one process: the second is not recorded, and says so."""
    watcher = daemon(rules=rule(victim("heap"), "history"), config=config("9MiB", live=1024, stacks=4096 - 64, history=1024))
    with heap_victim("window", 10, 20) as one:
        one.watched(watcher)
        with heap_victim("window", 10, 20) as two:
            two.go().until("between")
            two.go().until("done")
            assert is_untouched(two.pid)
            two.die()
            incident = watcher.incident(two.pid)
        assert is_probed(one.pid)
    heap = Heap(incident)
    assert heap.json["asked"] == "history"
    assert "memory" in heap.json["reason"]
    assert heap.account["allocations"] == 0
