"""Whose stack an address lies in: thread, frame, variable; below the stack pointer, or in the guard below."""

import itertools
import re

import gdb

from . import debuggee
from .text import distance, printable

FRAMES_MAX = 2000  # of a thread looked at: endless recursion has millions
THREADS_MAX = 4096
CALLERS_MAX = 16  # of a function that has run out of the stack: at first they are inlined, and have its stack pointer
RED_ZONE = 128  # System V ABI, AMD64 supplement, 3.2.2: a leaf function may use so much below rsp
GUARD_MAX = 64 << 20  # above it, memory without access is a reservation rather than a guard
# mm/mmap.c: stack_guard_gap, 256 pages below a stack that grows are kept free
STACK_GAP = 256 * 4096


class Stack:
    """A thread's.  mapping: what its stack pointer points into, or has just left at the bottom; None: not known."""

    def __init__(self, thread, sp, mapping):
        self.thread, self.sp, self.mapping = thread, sp, mapping

    @property
    def is_plain(self):
        """What threads usually have for a stack: the kernel's, or anonymous memory of the thread library."""
        return self.mapping.path == "[stack]" or self.mapping.is_anonymous


def stacks(question):
    found = []
    for thread in itertools.islice(question.threads.values(), THREADS_MAX):
        frame = debuggee.newest_frame(thread)
        sp = debuggee.register(frame, "sp") if frame else None
        if sp:
            found.append(Stack(thread, sp, mapping_of(question, frame, sp)))
    if len(question.threads) > THREADS_MAX:
        yield "stack", "looked at the stacks of the first %d threads only" % THREADS_MAX
    if not question.maps.complete:
        yield from by_frames_alone(question, found)
        return
    inside = [stack for stack in found if stack.mapping and stack.mapping is question.mapping]
    if inside:
        yield from within(question, inside)
    else:
        yield from beneath(question, [stack for stack in found if stack.mapping])


def mapping_of(question, frame, sp):
    """Where the stack pointer points; where that is out of the stack already, its nearest caller's."""
    for _ in range(CALLERS_MAX):
        found = question.maps.find(sp) if sp else None
        if found and not found.no_access:
            return found
        try:
            frame = frame.older()
        except gdb.error:
            return None
        if not frame:
            return None
        sp = debuggee.register(frame, "sp")
    return None


def by_frames_alone(question, found):
    """Where nothing tells how far a stack reaches."""
    below = [stack for stack in found if stack.sp <= question.address]
    if below:
        stack = max(below, key=lambda one: one.sp)
        lines = list(frame_of(question, stack))
        if lines:
            yield "stack", "%s: %s" % (debuggee.label(stack.thread), from_sp(question.address, stack.sp))
            yield from lines


def within(question, inside):
    """In a mapping that stack pointers point into; mostly one."""
    address = question.address
    # Of several in one mapping, that of the nearest stack pointer below: stacks grow down.
    below = [stack for stack in inside if stack.sp <= address]
    stack = max(below, key=lambda one: one.sp) if below else min(inside, key=lambda one: one.sp)
    name = debuggee.label(stack.thread)
    if len(inside) == 1 and stack.is_plain:
        yield "stack", "%s: %s" % (name, from_sp(address, stack.sp))
    else:
        where = from_sp(address, stack.sp)
        yield "stack", "in the mapping that %s has its stack in: %s" % (name, where)
    if address < stack.sp:
        if not below and debuggee.is_x86_64() and stack.sp - address <= RED_ZONE:
            yield "stack", "in the red zone, %d bytes that a leaf function may use" % RED_ZONE
        elif not below:
            yield "stack", "below the stack pointer: no frame's"
        return
    yield from frame_of(question, stack)


def from_sp(address, sp):
    if address == sp:
        return "at the stack pointer"
    return "%s %s the stack pointer" % (distance(abs(address - sp)), "above" if address > sp else "below")


def frame_of(question, stack):
    """A frame reaches from its stack pointer up to that of its caller."""
    frame, count = debuggee.newest_frame(stack.thread), 0
    while frame and count < FRAMES_MAX:
        try:
            older = frame.older()
        except gdb.error:
            return
        start = debuggee.register(frame, "sp")
        end = debuggee.register(older, "sp") if older else outermost_end(frame)
        if not start or not end:
            return  # the last that gdb can tell of
        if start <= question.address < end and same_stack(question, frame, end):
            where = distance(question.address - start)
            yield "frame", "#%d %s, %s above its stack pointer" % (frame.level(), name_of(frame), where)
            yield from variable_of(question, frame)
            return
        frame, count = older, count + 1
    if frame:
        yield "frame", "of none of the first %d frames" % FRAMES_MAX


def name_of(frame):
    return "<signal handler called>" if frame.type() == gdb.SIGTRAMP_FRAME else printable(frame.name() or "??")


def same_stack(question, frame, end):
    if question.mapping:
        return question.mapping.start <= end <= question.mapping.end
    return frame.type() != gdb.SIGTRAMP_FRAME  # the handler may have a stack of its own


def outermost_end(frame):
    """gdb goes no further than main, but says where main's frame begins: its callers' side, the highest address."""
    frame.select()
    try:
        said = re.match(r"Stack level \d+, frame at 0x([0-9a-f]+):", gdb.execute("info frame", to_string=True))
    except gdb.error:
        return None
    return int(said.group(1), 16) if said else None


def variable_of(question, frame):
    """The local variable or argument whose bytes these are, by the debug information."""
    for one in _with_inlined(frame):
        try:
            block = one.block()
        except (RuntimeError, gdb.error):
            continue
        while block:
            for symbol in block:
                found = _offset_in(question.address, symbol, one)
                if found is not None:
                    yield "variable", printable(symbol.print_name) + (" + " + distance(found) if found else "")
                    return
            if block.function:
                break
            block = block.superblock


def _with_inlined(frame):
    """frame and the functions inlined into it, which have its place on the stack and are newer."""
    yield frame
    sp, newer = debuggee.register(frame, "sp"), frame.newer()
    while newer and newer.type() == gdb.INLINE_FRAME and debuggee.register(newer, "sp") == sp:
        yield newer
        newer = newer.newer()


def _offset_in(address, symbol, frame):
    if not (symbol.is_variable or symbol.is_argument):
        return None
    try:
        value = symbol.value(frame)
        if value.is_optimized_out or value.address is None or not value.type.sizeof:
            return None
        offset = address - int(value.address)
    except (gdb.error, ValueError, TypeError):
        return None
    return offset if 0 <= offset < value.type.sizeof else None


def beneath(question, found):
    """Just below a stack: where one that overflows runs into."""
    address, mapping = question.address, question.mapping
    for stack in found:
        start = stack.mapping.start
        if mapping and mapping.no_access and mapping.end == start and start - mapping.start <= GUARD_MAX:
            yield "stack", "in the guard below the stack of %s, %s before its lowest byte" % (
                debuggee.label(stack.thread),
                distance(start - address),
            )
            yield from usage(question, stack)
        elif question.unmapped and stack.mapping.path == "[stack]" and 0 < start - address <= STACK_GAP:
            yield "stack", "%s below the stack of %s" % (distance(start - address), debuggee.label(stack.thread))
            yield from usage(question, stack)


def usage(question, stack):
    """How much of its stack the thread has used, and the limit where that is what it grows to."""
    said = "its stack pointer is %s above the lowest byte" % distance(stack.sp - stack.mapping.start)
    if stack.sp < stack.mapping.start:
        said = "its stack pointer is below the lowest byte"
    limit = None
    if stack.mapping.path == "[stack]":
        for line in question.bundle.plain("process/limits").split("\n"):
            words = line.split()
            if words[:3] == ["Max", "stack", "size"] and len(words) > 3 and words[3].isdigit():
                limit = int(words[3])
    said += "; the stack has %s" % distance(stack.mapping.end - stack.mapping.start)
    yield "stack", said + ("" if limit is None else " of at most %s" % distance(limit))
