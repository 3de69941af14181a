"""What incidentctl and gdb make of a recorded heap: the classic mistakes, named."""

import os
import signal
import subprocess

import pytest

from lib.heap_victim import config, heap_victim, rule
from lib.programs import victim
from lib.victims import finish, start

VARIANTS = ("heap", "heap_nopie", "heap_static")


@pytest.fixture
def dies(daemon):
    """dies(arguments…): (victim, daemon, incident) of one that was watched from its start."""

    def make(*arguments, program="heap", level="history", **options):
        watcher = daemon(rules=rule(victim(program), level), config=config())
        with heap_victim(*arguments, program=program, **options) as one:
            one.watched(watcher)
            one.go().until("done")
            assert one.die().status < 0
            return one, watcher, watcher.explained_incident(one.pid)

    return make


def claims(incident):
    return (incident.record["verdict"] or {"claims": []})["claims"]


def pointer(incident, address):
    (found,) = [each for each in incident.record["heap"]["pointers"] if int(each["address"], 16) == address]
    return found


def place(event):
    return event["place"].split("+")[0].split(" ")[0]


@pytest.mark.parametrize("program", VARIANTS)
@pytest.mark.parametrize("how", ["read", "write"])
def test_use_after_free(dies, how, program):
    one, watcher, incident = dies("uaf", how, 1 << 20, program=program)
    first = claims(incident)[0]
    what = f"use after free: {how}_it() {how}s 8 bytes at offset 8 of an allocation of 1048576 bytes"
    assert first["claim"].startswith(what)
    assert "freed" in first["claim"] and "by free_it" in first["claim"]
    assert any(fact.startswith("allocated by allocate_it") for fact in first["facts"])
    told = pointer(incident, int(incident.signal["address"], 16))
    assert told["where"] == "inside" and told["offset"] == 8
    assert place(told["allocation"]["allocated"]) == "allocate_it"
    assert place(told["allocation"]["freed"]) == "free_it"
    assert "use after free" in watcher.ctl.text("info", one.pid)
    assert "fault address" in watcher.ctl.text("threads", one.pid)


def test_gdb_tells_the_same(dies):
    one, watcher, incident = dies("uaf", "read", 1 << 20)
    address = one.value("allocated")
    commands = ("-ex", "incident explain", "-ex", f"incident explain {address:#x}")
    said = watcher.ctl.text("gdb", one.pid, "--", "-batch", *commands)
    told = pointer(incident, int(incident.signal["address"], 16))
    assert told["text"] in said
    for line in told["lines"]:
        assert line in said
    assert "the start of an allocation of 1048576 bytes, freed" in said
    memory = watcher.ctl.text("gdb", one.pid, "--", "-batch", "-ex", "incident memory")
    assert "allocations alive" in memory


@pytest.mark.parametrize("program", VARIANTS)
def test_double_free(dies, program):
    one, _, incident = dies("double-free", program=program)
    first = claims(incident)[0]
    what = f"double free: {one.value('allocated'):#x}, an allocation of 40 bytes, was freed by free_it"
    assert first["claim"].startswith(what)
    assert "later again by free_again" in first["claim"]


@pytest.mark.parametrize("program", VARIANTS)
def test_overrun_into_the_next_chunk(dies, program):
    one, _, incident = dies("overrun", "chunk", program=program)
    facts = [fact for claim in claims(incident) for fact in claim["facts"]]
    assert any(claim["claim"].startswith(f"it was about to free {one.value('next'):#x}") for claim in claims(incident))
    below = f"just below, of 24 bytes at {one.value('allocated'):#x} alive, allocated by allocate_it"
    assert any(fact.startswith(below) for fact in facts)
    assert not any("double free" in claim["claim"].split(":")[0] for claim in claims(incident))


def test_overrun_into_nothing(dies):
    one, _, incident = dies("overrun", "page")
    beyond = one.value("usable") - one.value("allocated", 2)
    assert claims(incident)[0]["claim"].startswith(f"overrun: write_behind() writes 1 byte {beyond} bytes past the end")


@pytest.mark.parametrize("level", ["sizes", "history"])
def test_a_leak_of_one_percent(dies, level):
    one, watcher, incident = dies("leak", 200000, level=level)
    top = incident.record["heap"]["growing"][0]
    assert place(top) == "leak_it"
    assert top["live"] == 2000 and top["live_bytes"] == one.value("leaked", 2)
    assert 0 < top["count"] <= 2000 and top["bytes"] <= top["live_bytes"]  # of the window, which a slow machine outlasts
    assert "leak_it" in watcher.ctl.text("info", one.pid)
    folded = (incident.path / "heap" / "growth.folded").read_text()
    lines = dict(line.rsplit(" ", 1) for line in folded.splitlines())
    (leak,) = [stack for stack in lines if ";leak_it;" in stack]
    assert int(lines[leak]) == top["bytes"]
    assert leak.index("main") < leak.index("leak_it") < leak.index("malloc")  # outermost first


# As heap_inject.c has it: the signal lets the bug loose.
BUG_SIGNAL = signal.SIGRTMIN + 7
PERL = ("-e", '$| = 1; print "ready\\n"; select(undef, undef, undef, undef) while 1')
# An overrun there goes unnoticed by glibc: nothing is claimed.
BUGS = {"use-after-free-read": "use after free: ", "double-free": "double free: "}


@pytest.mark.parametrize("bug", BUGS)
def test_in_a_real_program(daemon, bug):
    program = "/usr/bin/perl"
    watcher = daemon(rules=rule(program, "history"), config=config())
    environment = {"LD_PRELOAD": victim("heap_inject.so"), "HEAP_BUG": bug}
    with heap_victim(*PERL, program=program, env=environment, stderr=subprocess.DEVNULL) as one:
        one.watched(watcher)
        os.kill(one.pid, BUG_SIGNAL)
        one.process.wait()
        incident = watcher.explained_incident(one.pid)
    assert claims(incident)[0]["claim"].startswith(BUGS[bug])
    assert "injected_" in str(claims(incident))


def test_a_process_without_a_rule_for_it_has_no_paragraph(daemon):
    watcher = daemon()
    process = start(victim("heap"), "double-free", stdin=subprocess.PIPE)
    died = finish(process, stdin=b"\n\n")
    incident = watcher.explained_incident(died.pid)
    assert "heap" not in incident.record and not (incident.path / "heap.json").exists()
    assert "pointers into the heap" not in watcher.ctl.text("threads", died.pid)
