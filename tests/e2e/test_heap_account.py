"""What is recorded of a heap adds up, and is what the program itself says.

A victim is started before the daemon where its own numbers are compared: what it did before it said "ready" is
not recorded then.
"""

import os
import re
import time

import pytest

from lib.heap import ALLOCATED, FREED, IN_PLACE, UNKNOWN, Heap
from lib.heap_victim import config, heap_victim, rule
from lib.programs import victim
from lib.wait import until

NO_CACHE = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}  # what lies in the cache is in use for mallinfo2()
LIBRARIES = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")
LARGE = {"live": 65536, "history": 262144}


def recorded(daemon, one, level="history", program="heap", **keys):
    """The daemon, watching a victim that waits."""
    watcher = daemon(rules=rule(victim(program), level), config=config(**{**LARGE, **keys}))
    one.watched(watcher)
    return watcher


def heap_of(watcher, one):
    one.die()
    heap = Heap(watcher.incident(one.pid))
    heap.assert_adds_up()
    return heap


def assert_own_account(heap, one):
    """Exactly what the program counted itself."""
    account = heap.account
    said = next(words[1:] for words in one.said if words[0] == "account")
    own = dict(zip(("allocations", "allocated_bytes", "frees", "freed_bytes"), map(int, said)))
    assert {key: account[key] for key in own} == own
    assert account["live"] == one.value("live")
    assert account["unknown_frees"] == 0
    heap.assert_nothing_missed()


@pytest.mark.parametrize("level", ["sizes", "history"])
@pytest.mark.parametrize("program", ["heap", "heap_nopie", "heap_static"])
def test_account_of_glibc(daemon, program, level):
    with heap_victim("account", 4, 20000, program=program, env=NO_CACHE) as one:
        watcher = recorded(daemon, one, level, program)
        one.go().until("done")
        heap = heap_of(watcher, one)
    assert heap.json["level"] == heap.json["asked"] == level
    assert_own_account(heap, one)
    assert one.value("uordblks") == one.value("chunks")  # the victim's own view of itself
    # glibc's chunk: 8 bytes before, a multiple of 16, at least 32 (malloc/malloc.c, request2size); a realloc in
    # place may leave up to 16 bytes more, for a rest is no chunk
    chunks = sum(max(32, (live.size + 8 + 15) & ~15) for live in heap.live)
    assert chunks <= one.value("uordblks") <= chunks + 16 * len(heap.live)


@pytest.mark.parametrize("level", ["sizes", "history"])
@pytest.mark.parametrize("threads, calls", [(1, 40_000), (2, 20_000), (16, 2500)])
def test_account_of_threads_with_little_history(daemon, threads, calls, level):
    with heap_victim("account", threads, calls, env=NO_CACHE) as one:
        watcher = recorded(daemon, one, level, history=1024)
        one.go().until("done")
        heap = heap_of(watcher, one)
    assert_own_account(heap, one)
    if level == "history":
        made = heap.account["allocations"] + heap.account["frees"]
        assert heap.json["history"]["written"] == made > len(heap.history) == 1024, "the rest is overwritten"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("level", ["sizes", "history"])
def test_account_of_other_allocators(daemon, library, level):
    with heap_victim("account", 4, 20000, library=library, env={"LD_PRELOAD": library}) as one:
        watcher = recorded(daemon, one, level)
        one.go().until("done")
        heap = heap_of(watcher, one)
    assert_own_account(heap, one)
    assert any(f["probed"] and library in f["path"] for f in heap.json["functions"])


def jemalloc_class(size):
    """jemalloc(3), SIZE CLASSES: 8, multiples of 16 to 128, then four to each doubling."""
    if size <= 8:
        return 8
    if size <= 128:
        return (size + 15) & ~15
    step = 1 << ((size - 1).bit_length() - 3)
    return (size + step - 1) // step * step


def test_account_is_jemallocs_own(daemon):
    library = "libjemalloc.so.2"
    with heap_victim("account", 4, 20000, library=library, env={"LD_PRELOAD": library, "MALLOC_CONF": "tcache:false"}) as one:
        watcher = recorded(daemon, one)
        one.go().until("done")
        heap = heap_of(watcher, one)
    assert_own_account(heap, one)
    assert sum(jemalloc_class(live.size) for live in heap.live) == one.value("jemalloc") > 0


def family_of(one):
    """[(function, address, size)] of what the victim allocated, in its order."""
    return [(words[0], int(words[1], 16), int(words[2])) for words in one.said if len(words) == 3]


@pytest.mark.parametrize(
    "program, library", [("heap", ""), ("heap_static", ""), *(("heap", library) for library in LIBRARIES)]
)
def test_each_function(daemon, program, library):
    with heap_victim("family", program=program, library=library, env={"LD_PRELOAD": library} if library else {}) as one:
        watcher = recorded(daemon, one, program=program)
        one.go().until("done")
        heap = heap_of(watcher, one)
    made = [(record.address, record.size) for record in heap.history if record.kind == ALLOCATED]
    asked = family_of(one)
    unseen = [entry for entry in asked if entry[1:] not in made]
    if any(f["name"].startswith("operator new") and not f["probed"] for f in heap.json["functions"]):
        assert {name for name, _, _ in unseen} <= {"new", "aligned-new"}  # the bundle says that these are not seen
        assert heap.account["unknown_frees"] == len(unseen)
        asked = [entry for entry in asked if entry not in unseen]
    else:
        assert heap.account["unknown_frees"] == 0
    assert made[-len(asked) :] == [(address, size) for _, address, size in asked]
    assert {live.address for live in heap.live} == {address for _, address, _ in asked[-2:]}  # malloc(0), and the last
    heap.assert_nothing_missed()


def test_realloc_in_place_is_told(daemon):
    with heap_victim("family") as one:
        watcher = recorded(daemon, one)
        one.go().until("done")
        heap = heap_of(watcher, one)
    smaller = next(r for r in heap.history if r.kind == ALLOCATED and r.size == 4990)
    before = next(r for r in heap.history if r.kind == FREED and r.size == 5000)
    assert before.address == smaller.address
    assert smaller.flags & IN_PLACE and before.flags & IN_PLACE
    moved = next(r for r in heap.history if r.kind == ALLOCATED and r.size == 5000)
    assert not moved.flags & IN_PLACE


@pytest.mark.parametrize("library", ["", *LIBRARIES])
def test_failed_allocations_are_none(daemon, library):
    with heap_victim("failing", library=library, env={"LD_PRELOAD": library} if library else {}) as one:
        watcher = recorded(daemon, one)
        one.go().until("done")
        heap = heap_of(watcher, one)
    assert heap.account["failed"] == one.value("failed") == 7
    (live,) = heap.live
    assert (live.address, live.size) == (int(one.said[0][1], 16), 201)
    assert heap.account["unknown_frees"] == 0


@pytest.mark.parametrize("library", ["", "libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_exceptions_and_jumps_out_of_operator_new(daemon, library):
    """mimalloc aborts where operator new fails."""
    with heap_victim("jumping", library=library, env={"LD_PRELOAD": library} if library else {}) as one:
        watcher = recorded(daemon, one)
        one.go().until("done")
        heap = heap_of(watcher, one)
    kept = [live for live in heap.live if live.size == 301]
    assert len(kept) == one.value("kept") == 100
    assert heap.account["lost"] == heap.account["reused"] == 0


@pytest.mark.parametrize("library", ["", *LIBRARIES])
def test_addresses_that_come_back_at_once(daemon, library):
    with heap_victim("reuse", 4, 20000, library=library, env={"LD_PRELOAD": library} if library else {}) as one:
        watcher = recorded(daemon, one)
        one.go().until("done")
        heap = heap_of(watcher, one)
    account = heap.account
    assert account["allocations"] == account["frees"] == one.value("calls")
    assert account["live"] == 0
    heap.assert_nothing_missed()
    lives = {}
    for record in heap.history:  # of each address: made, freed, made, …
        assert lives.get(record.address, FREED) != record.kind
        lives[record.address] = record.kind


def test_threads_that_ended_left_something(daemon):
    with heap_victim("threads", 8, 100) as one:
        watcher = recorded(daemon, one)
        one.go().until("done")
        heap = heap_of(watcher, one)
    threads = {int(words[1]) for words in one.said if words[0] == "thread"}
    left = [live for live in heap.live if live.size == 1000]
    assert len(left) == one.value("live") == 400
    assert {live.tid for live in left} == threads
    # an ending thread hands what its cache holds, freed before, to free() once more (malloc/malloc.c,
    # tcache_thread_shutdown); and the loader frees what it had allocated for it before
    unknown = [record for record in heap.history if record.flags & UNKNOWN]
    assert len(unknown) == heap.account["unknown_frees"]
    assert all(re.search("/(libc|ld-linux)", one.code.path(heap.stacks[record.stack])) for record in unknown)


def test_a_fork_has_its_own_account(daemon):
    with heap_victim("fork", 1000) as one:
        watcher = recorded(daemon, one)
        one.go().until("forked")
        child = one.value("child")
        parent, one.pid = one.pid, child
        one.watched(watcher)
        one.go().until("done")
        one.go().until("parent")
        born = Heap(watcher.incident(child))
        one.pid = parent
        heap = heap_of(watcher, one)
    born.assert_adds_up()
    assert born.account["allocations"] == born.account["live"] == 250
    assert {live.size for live in born.live} == {70}
    assert born.account["unknown_frees"] == 500  # what it inherited and freed
    assert born.account["frees"] == 0
    assert sum(live.size == 50 for live in heap.live) == 1000  # the parent's are all there
    assert heap.account["unknown_frees"] == 0


EXEC_AGAIN = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
EXECED = "import ctypes, sys; print('ready', flush=True); sys.stdin.readline(); ctypes.string_at(0)"


def test_exec_begins_anew(daemon):
    watcher = daemon(rules=rule("/usr/bin/python3", "history"), config=config(**LARGE))
    with heap_victim("-c", EXEC_AGAIN, EXECED, program="/usr/bin/python3") as one:
        one.watched(watcher)
        one.die()
        incident = watcher.incident(one.pid)
    heap = Heap(incident)
    heap.assert_adds_up()
    assert heap.json["exec_ns"] == incident.process["exec_ns"]
    assert heap.json["since_ns"] > heap.json["exec_ns"]
    assert all(record.t_ns > heap.json["exec_ns"] for record in heap.history)
    assert all(live.t_ns > heap.json["exec_ns"] for live in heap.live)


def test_the_window_is_what_it_says(daemon):
    with heap_victim("window", 3000, 100) as one:
        watcher = recorded(daemon, one, window="1s")
        one.go().until("between")
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + 3, "the first ones to leave the window")
        one.go().until("done")
        heap = heap_of(watcher, one)
    window, inside = heap.json["window"], heap.json["in_window"]
    assert window["ns"] >= 10**9
    recent = [r for r in heap.history if r.t_ns >= window["from_ns"]]
    assert inside["allocations"] == sum(r.kind == ALLOCATED for r in recent)
    assert inside["allocated_bytes"] == sum(r.size for r in recent if r.kind == ALLOCATED)
    assert sum(one["window_allocations"] for one in heap.json["sizes"]) == inside["allocations"]
    of_site = {}
    for stack in heap.stacks.values():
        site = one.code.caller(stack)
        of_site[site] = of_site.get(site, 0) + stack.window.allocations
        assert stack.window.allocations <= stack.total.allocations
    assert of_site["before_it"] == 0
    assert of_site["after_it"] == sum(r.kind == ALLOCATED and r.size == 200 for r in recent)


def test_what_finds_no_room_is_counted(daemon):
    with heap_victim("window", 5000, 0) as one:
        watcher = recorded(daemon, one, live=1024, stacks=64, history=1024)
        one.go().until("between")
        one.go().until("done")
        heap = heap_of(watcher, one)
    assert heap.account["allocations"] == 5000
    assert heap.account["live"] == 1024
    assert heap.account["lost"] == 5000 - 1024
    assert heap.account["lost_bytes"] == 100 * (5000 - 1024)
    assert len(heap.history) == 1024
    assert heap.json["history"]["written"] == 5000
    assert heap.json["history"]["from_ns"] <= heap.history[0].t_ns
    page = watcher.ctl.text("--json", "info", str(one.pid))
    assert '"lost"' in page


def test_call_stacks_that_find_no_room_are_counted(daemon):
    with heap_victim("stacks", 200) as one:
        watcher = recorded(daemon, one, live=1024, stacks=64, history=1024)
        one.go().until("done")
        heap = heap_of(watcher, one)
    assert len(heap.stacks) == 64
    assert heap.account["allocations"] == heap.account["live"] == 200
    assert heap.account["no_stack"] == 200 - 64
    assert sum(live.stack == 0 for live in heap.live) == 200 - 64


def test_frees_of_what_was_there_before_are_no_mistake(daemon):
    """A daemon that comes later than the program: what it never saw allocated is unknown, and no leak."""
    watcher = daemon(rules=rule(victim("heap"), "history"), config=config(**LARGE))
    with heap_victim("fork", 100) as one:
        one.watched(watcher)
        one.go().until("forked")
        watcher.stop()
        watcher.start()
        one.pid = one.value("child")
        one.watched(watcher)
        one.go().until("done")
        one.go().until("parent")
        heap = Heap(watcher.incident(one.pid))
    heap.assert_adds_up()
    assert heap.account["unknown_frees"] == 50
    assert all(record.flags & UNKNOWN for record in heap.history if record.kind == FREED)
    assert heap.json["since_ns"] > heap.json["exec_ns"]
    assert os.path.realpath(victim("heap")) == watcher.incident(one.pid).process["exe"]
