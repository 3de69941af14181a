"""The classic mistakes, in victims and put into programs of Debian: the bundle knows the pointer's life.

What the files say is read here without incidentctl; what it makes of them is asked for in the same runs.
"""

import os
import signal

import pytest

from lib.heap import ALLOCATED, FREED, UNKNOWN, Heap
from lib.heap_victim import config, heap_victim, rule
from lib.programs import victim
from lib.wait import until

VARIANTS = ("heap", "heap_nopie", "heap_static")


@pytest.fixture
def dies(daemon):
    """dies(arguments…): (victim, incident, heap) of one that was watched from its start."""

    def make(*arguments, program="heap", steps=1, **options):
        watcher = daemon(rules=rule(victim(program), "history"), config=config())
        with heap_victim(*arguments, program=program, **options) as one:
            one.watched(watcher)
            for _ in range(steps):
                one.go().until("done")
            died = one.die()
            assert died.status < 0
            incident = watcher.explained_incident(one.pid)
            heap = Heap(incident)
        heap.assert_adds_up()
        return one, incident, heap

    return make


def life(one, heap, address):
    """[(kind, who called malloc or free, flags)] of an address, since its first known allocation."""
    known = [(record.kind, one.code.caller(heap.stacks[record.stack]), record.flags) for record in heap.biography(address)]
    return known[next(i for i, record in enumerate(known) if record[0] == ALLOCATED) :]


@pytest.mark.parametrize("program", VARIANTS)
@pytest.mark.parametrize("how", ["read", "write"])
def test_use_after_free(dies, how, program):
    one, incident, heap = dies("uaf", how, 1 << 20, program=program)
    address = one.value("allocated")
    fault = int(incident.signal["address"], 16)
    assert incident.signal["name"] == "SIGSEGV" and address <= fault < address + (1 << 20)
    assert life(one, heap, address) == [(ALLOCATED, "allocate_it", 0), (FREED, "free_it", 0)]
    made, freed = heap.biography(address)[-2:]
    assert made.size == freed.size == 1 << 20
    assert made.tid == freed.tid == one.pid
    assert made.t_ns < freed.t_ns < incident.record["clocks"]["trigger_ns"]
    assert address not in {live.address for live in heap.live}


@pytest.mark.parametrize("program", VARIANTS)
def test_use_of_what_another_has_now(dies, program):
    one, _, heap = dies("uaf", "reused", 48, program=program)
    assert one.value("allocated") == one.value("reused")
    assert life(one, heap, one.value("allocated")) == [
        (ALLOCATED, "allocate_it", 0),
        (FREED, "free_it", 0),
        (ALLOCATED, "reuse_it", 0),
    ]
    assert one.value("reused") in {live.address for live in heap.live}


@pytest.mark.parametrize("program", VARIANTS)
def test_double_free(dies, program):
    one, incident, heap = dies("double-free", program=program)
    assert incident.signal["number"] == signal.SIGABRT
    *before, last = life(one, heap, one.value("allocated"))
    assert before == [(ALLOCATED, "allocate_it", 0), (FREED, "free_it", 0)]
    assert last == (FREED, "free_again", UNKNOWN)
    assert heap.account["unknown_frees"] == 1


@pytest.mark.parametrize("program", VARIANTS)
def test_overrun_into_the_next_chunk(dies, program):
    one, incident, heap = dies("overrun", "chunk", program=program)
    assert incident.signal["number"] == signal.SIGABRT
    address = one.value("allocated")
    (overrun,) = [live for live in heap.live if live.address == address]
    assert overrun.size == 24
    assert one.code.caller(heap.stacks[overrun.stack]) == "allocate_it"
    assert life(one, heap, one.value("next"))[-1][:2] == (FREED, "free_it")  # where it was noticed


def test_overrun_into_nothing(dies):
    one, incident, heap = dies("overrun", "page")
    fault = int(incident.signal["address"], 16)
    (overrun,) = [live for live in heap.live if live.address == one.value("allocated")]
    assert fault == overrun.address + one.value("usable")
    assert 0 <= fault - (overrun.address + overrun.size) < 16  # what glibc rounds up to
    assert one.code.caller(heap.stacks[overrun.stack]) == "allocate_it"


@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"])
def test_other_allocators_lives(dies, library):
    one, _, heap = dies("uaf", "write", 1 << 20, library=library, env={"LD_PRELOAD": library})
    assert life(one, heap, one.value("allocated"))[:2] == [(ALLOCATED, "allocate_it", 0), (FREED, "free_it", 0)]


@pytest.mark.parametrize("level", ["sizes", "history"])
def test_a_leak_of_one_percent(daemon, level):
    """Of 1,000,000 allocations each hundredth: the call stack with most that is not freed is the one."""
    watcher = daemon(rules=rule(victim("heap"), level), config=config())
    with heap_victim("leak", 1000000) as one:
        one.watched(watcher)
        one.go().until("done")
        one.die()
        heap = Heap(watcher.incident(one.pid))
    heap.assert_adds_up()
    top = max(heap.stacks.values(), key=lambda stack: stack.total.allocations - stack.total.frees)
    assert one.code.caller(top) == "leak_it"
    assert "main" in one.code.sites(top)
    assert top.total.allocations == 10000 and top.total.frees == 0
    assert top.total.allocated_bytes == one.value("leaked", 2)
    assert heap.account["allocations"] >= 1000000
    assert sum(live.stack == top.id for live in heap.live) == 10000


# ---- put into real programs

INJECT = victim("heap_inject.so")
BUG_SIGNAL = signal.SIGRTMIN + 7
PYTHON = ("/usr/bin/python3", ("-c", "import select; print('ready', flush=True); select.select([], [], [])"))
PERL = ("/usr/bin/perl", ("-e", "$| = 1; print \"ready\\n\"; select(undef, undef, undef, undef) while 1"))
REDIS = ("/usr/bin/redis-server", ("--port", "0", "--save", "", "--crash-log-enabled", "no", "--daemonize", "no"))
PROGRAMS = {"python3": (PYTHON, ""), "perl": (PERL, ""), "redis-server": (REDIS, "libjemalloc")}


@pytest.fixture
def injected(daemon, tmp_path):
    """injected(program, bug, level): (program, incident or watcher, heap) after the bug was let loose in it."""

    def make(name, bug, level="history"):
        (program, arguments), library = PROGRAMS[name]
        ours = tmp_path / f"buggy-{name[:8]}"  # a name of its own: others of this machine run the same program
        ours.symlink_to(program)
        watcher = daemon(rules=rule(program, level, comm=ours.name), config=config())
        if name == "redis-server":
            arguments = (*arguments, "--dir", str(tmp_path), "--unixsocket", str(tmp_path / "socket"))
        environment = {"LD_PRELOAD": INJECT, "HEAP_BUG": bug}
        wait_for = None if name == "redis-server" else "ready"
        with open(tmp_path / "said", "wb") as said, heap_victim(
            *arguments, program=str(ours), library=library, env=environment, wait_for=wait_for, stderr=said
        ) as one:
            if name == "redis-server":
                until((tmp_path / "socket").exists, "redis to listen")
            one.watched(watcher)
            one.snapshot()
            os.kill(one.pid, BUG_SIGNAL)
            if bug == "leak":
                until(lambda: b"leaked" in (tmp_path / "said").read_bytes(), "the leak")
                os.kill(one.pid, signal.SIGABRT)
            one.process.wait()
            incident = watcher.explained_incident(one.pid)
            one.said = [line.split() for line in (tmp_path / "said").read_text(errors="replace").splitlines() if line]
        heap = Heap(incident)
        heap.assert_adds_up()
        return one, incident, heap

    return make


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("how", ["read", "write"])
def test_injected_use_after_free(injected, name, how):
    one, incident, heap = injected(name, f"use-after-free-{how}")
    address = one.value("allocated")
    assert life(one, heap, address)[-2:] == [(ALLOCATED, "injected_allocate", 0), (FREED, "injected_free", 0)]
    if name != "redis-server":  # jemalloc keeps it mapped: the abort is ours
        assert address <= int(incident.signal["address"], 16) < address + (8 << 20)


@pytest.mark.parametrize("name", PROGRAMS)
def test_injected_use_of_what_another_has_now(injected, name):
    one, incident, heap = injected(name, "use-after-free-reused")
    assert incident.signal["name"] == "SIGSEGV"
    assert life(one, heap, one.value("allocated"))[-3:] == [
        (ALLOCATED, "injected_allocate", 0),
        (FREED, "injected_free", 0),
        (ALLOCATED, "injected_reuse", 0),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_injected_double_free(injected, name):
    one, incident, heap = injected(name, "double-free")
    assert incident.signal["number"] == signal.SIGABRT
    made, freed, again = life(one, heap, one.value("allocated"))[-3:]
    assert (made[:2], freed[:2]) == ((ALLOCATED, "injected_allocate"), (FREED, "injected_free"))
    assert (again[0], again[2]) == (FREED, UNKNOWN)


@pytest.mark.parametrize("name", PROGRAMS)
def test_injected_overrun(injected, name):
    one, incident, heap = injected(name, "overrun")
    assert incident.signal["number"] == signal.SIGABRT
    assert life(one, heap, one.value("allocated"))[0][:2] == (ALLOCATED, "injected_allocate")


@pytest.mark.parametrize("name", PROGRAMS)
def test_injected_leak(injected, name):
    one, _, heap = injected(name, "leak", "sizes")
    top = max(heap.stacks.values(), key=lambda stack: stack.total.allocations - stack.total.frees)
    assert one.code.caller(top) == "injected_leak"
    # old words on the stack may tell one call stack as several
    leaking = [stack.total for stack in heap.stacks.values() if one.code.caller(stack) == "injected_leak"]
    assert sum(total.allocations - total.frees for total in leaking) == 10000
