"""Which registers point near an address, and which operand of the faulting instruction made it."""

import itertools
import re

import gdb

from . import debuggee
from .explain_space import LOWEST, USER_END_4
from .text import ADDRESS_MASK, distance, integer, number, printable

NEAR = 256  # as far as the bundle keeps memory around a register
REGISTERS_SHOWN = 16
THREADS_MAX = 4096  # of gdb's, and as many of the bundle's

# AT&T syntax: 0x10(%rax,%rbx,8), (%rsp), 0x2000(%rip), 0x601040; a segment changes the meaning.
OPERAND = re.compile(r"(?<![%\w:$*])(-?0x[0-9a-f]+)?\((?:%(\w+))?(?:,%(\w+),([1248]))?\)")

PUSHES = re.compile(r"(call|push)[ql]?\b")


def instruction(question):
    """The instruction the thread died at, and the operand that gives this address, where one does."""
    if not question.faulting or not (debuggee.is_x86_64() or debuggee.is_i386()):
        return
    thread = question.threads.get(integer(question.bundle.incident(), "thread", "tid"))
    frame = debuggee.newest_frame(thread) if thread else None
    if not frame:
        return
    frame.select()
    if frame.pc() == question.address:
        yield "access", "%s was to execute there" % debuggee.label(thread)
        return
    flavor = gdb.parameter("disassembly-flavor")
    try:
        gdb.execute("set disassembly-flavor att", to_string=True)
        line = gdb.execute("x/i $pc", to_string=True).strip()
    except gdb.error:
        return
    finally:
        gdb.execute("set disassembly-flavor %s" % flavor, to_string=True)
    code = line.split("\t", 1)[-1].strip()
    sp, name = debuggee.register(frame, "sp"), "esp" if debuggee.is_i386() else "rsp"
    if PUSHES.match(code) and sp is not None and (sp - debuggee.word()) & ADDRESS_MASK == question.address:
        yield "access", "%s was at '%s', which pushes to this address, with %s = 0x%x" % (
            debuggee.label(thread),
            printable(code),
            name,
            sp,
        )
        return
    for match in OPERAND.finditer(code):
        made = effective(frame, match)
        if made and made[0] == question.address:
            yield "access", "%s was at '%s': %s is this address, with %s" % (
                debuggee.label(thread),
                printable(code),
                match.group(0),
                ", ".join("%s = 0x%x" % part for part in made[1]),
            )
            return
    yield "access", "%s was at '%s'" % (debuggee.label(thread), printable(code))


def effective(frame, match):
    """(address, [(register, value)]) of an operand; None where a register is not known."""
    offset, base, index, scale = match.groups()
    address, parts = int(offset or "0", 16), []
    if base == "rip":
        return None  # relative to the next instruction: no register to speak of
    for name, factor in ((base, 1), (index, int(scale or 1))):
        if name:
            value = debuggee.register(frame, name)
            if value is None or name not in debuggee.registers():
                return None
            address, parts = address + value * factor, parts + [(name, value)]
    return (address & debuggee.word_mask(), parts) if parts else None


def near(question):
    if question.address < LOWEST:
        return  # small numbers are in many registers
    pointing = sorted(_pointing(question), key=lambda found: abs(found[0]))
    for off, name, tid in pointing[:REGISTERS_SHOWN]:
        where = "points %s %s it" % (distance(abs(off)), "below" if off < 0 else "above")
        how = where if off else "is this address"
        yield "registers", "%s of %s %s" % (name, debuggee.tid_label(tid, question.threads), how)
    if len(pointing) > REGISTERS_SHOWN:
        yield "registers", "and %d more within %d bytes" % (len(pointing) - REGISTERS_SHOWN, NEAR)
    if len(question.threads) > THREADS_MAX:
        yield "registers", "looked at those of the first %d threads only" % THREADS_MAX


def _pointing(question):
    # What no program can point into is not pointed near either: numbers that look so are many.
    reach = NEAR if question.address < USER_END_4 else 0
    for tid, name, value in itertools.chain(_in_gdb(question), _in_bundle(question)):
        off = value - question.address
        if -reach <= off <= reach:
            yield off, name, tid


def _in_gdb(question):
    for tid, thread in itertools.islice(question.threads.items(), THREADS_MAX):
        frame = debuggee.newest_frame(thread)
        for name in debuggee.registers() if frame else ():
            value = debuggee.register(frame, name)
            if value is not None:
                yield tid, name, value


def _in_bundle(question):
    """Threads that are not in the core."""
    try:
        threads = question.bundle.threads()
    except gdb.GdbError:
        return
    for thread in threads[:THREADS_MAX]:
        tid = integer(thread, "tid")
        for name in debuggee.registers() if tid is not None and tid not in question.threads else ():
            value = number(thread, "registers", name)
            if value is not None:
                yield tid, name, value
