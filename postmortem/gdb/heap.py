"""The recorded heap: heap.json and heap/*.bin, as capture/collect/heap.h has them.

`lives` and `Biography` are postmortem/heap/'s (lives.cpp, biography.cpp), for one address.
"""

import struct

import gdb

from .text import get, integer, number

# capture/collect/heap.h and bpf/heap.h, layout 1: little-endian, without padding
LAYOUT = 1
STACK = struct.Struct("<18QII512s")
LIVE = struct.Struct("<4Q2I")
HISTORY = struct.Struct("<4QI4B")
STACK_ID, STACK_LENGTH, STACK_SLICE = 0, 18, 20
ALLOCATED, FREED = 1, 2
UNKNOWN, UNLISTED = 1, 2
REALLOC = (3, 4, 9, 10)
NEAR = 64
LAST_ADDRESS = (1 << 64) - 1
NEVER = 1 << 64


class Event:
    def __init__(self, t_ns, stack, tid, function):
        self.t_ns, self.stack, self.tid, self.function = t_ns, stack, tid, function


class Life:
    """From an allocation to its free.  end: "", "freed", "reused" (given out again), "unseen" (its free unrecorded)."""

    def __init__(self, start, size, known=True, allocated=None):
        self.start, self.size, self.known, self.allocated = start, size, known, allocated
        self.freed, self.again, self.resized_from, self.resized_to = None, [], None, None
        self.over, self.end = NEVER, ""

    @property
    def past(self):
        return min(self.start + self.size, LAST_ADDRESS)

    @property
    def begun(self):
        return self.allocated.t_ns if self.allocated else 0

    def covers(self, address):
        if not self.known:
            return address == self.start
        return self.start <= address < self.past or (self.size == 0 and address == self.start)

    def alive_at(self, t_ns):
        return self.begun <= t_ns < self.over and self.end != "unseen"

    def rank(self, t_ns):
        """Alive, else known to have ended last, else begun last."""
        return self.alive_at(t_ns), max(self.begun, self.over if self.over != NEVER else 0)


class Heap:
    """What a bundle knows of its process's heap; `of_bundle` keeps it."""

    def __init__(self, bundle):
        self.bundle, self.notes = bundle, []
        self.about = bundle.document("heap.json")
        fits = integer(self.about, "layout") == LAYOUT
        if not fits:
            self.notes.append("heap/*.bin are of a layout that is not known here")
        self.frames = self.named_frames()
        # What the allocator freed for itself (an ending thread's cache) is no call of the program's.
        own = get(self.frames, "allocators_own")
        own = {number({"id": each}, "id") for each in own} if isinstance(own, list) else ()
        kept = (r for r in self.records("history", HISTORY, fits)[0] if r[3] not in own or not r[7] & UNKNOWN)
        self.history = sorted(kept, key=lambda record: record[0])
        self.live, self.live_read = self.records("live", LIVE, fits)
        if not self.live and integer(self.about, "account", "live"):
            self.live_read = False  # a light bundle has the account alone
        self.stacks = None

    def records(self, name, layout, fits):
        """(records, whether these are all)"""
        announced = integer(self.about, "files", name) or 0
        if not fits or not announced:
            return [], fits
        try:
            data = self.bundle.bytes("heap/%s.bin" % name)
        except gdb.GdbError as error:
            self.notes.append(str(error))
            return [], False
        whole = len(data) - len(data) % layout.size
        return list(layout.iter_unpack(data[:whole])), whole // layout.size >= announced

    def stack(self, identity):
        if self.stacks is None:
            self.stacks = {}
            for record in self.records("stacks", STACK, integer(self.about, "layout") == LAYOUT)[0]:
                self.stacks[record[STACK_ID]] = record
        return self.stacks.get(identity) if identity else None

    def return_address(self, identity):
        """Of the call of the allocator; None where it was not kept."""
        record = self.stack(identity)
        if record is None or record[STACK_LENGTH] < 8:
            return None
        return int.from_bytes(record[STACK_SLICE][:8], "little")

    def named_frames(self):
        try:
            return self.bundle.document("heap/frames.json")
        except gdb.GdbError:  # not analysed
            return {}

    def named(self, identity):
        """The frames that the analysis gave a call stack, innermost first; none: it has not named it."""
        frames, indices = get(self.frames, "frames"), get(self.frames, "stacks", "0x%x" % identity, "frames")
        if not isinstance(frames, list) or not isinstance(indices, list):
            return []
        return [frames[i] for i in indices if isinstance(i, int) and 0 <= i < len(frames)]


_known = {}


def of_bundle(bundle):
    """None: it has no heap."""
    if not bundle.has("heap.json"):
        return None
    if bundle.path not in _known:
        _known.clear()
        _known[bundle.path] = Heap(bundle)
    return _known[bundle.path]


def near(start, size, address):
    return start - NEAR <= address <= start + size + NEAR


def lives(heap, address):
    """All that lived at an address or near it."""
    starts = {record[1] for record in heap.history if near(record[1], record[2], address)}
    starts.update(record[0] for record in heap.live if near(record[0], record[1], address))
    of_start, partner, last = {start: [] for start in starts}, {}, {}
    for index, record in enumerate(heap.history):
        before, last[record[4]] = last.get(record[4]), index
        if before is not None and _is_realloc(heap.history[before], record):
            partner[index], partner[before] = heap.history[before], record
        if record[1] in starts:
            of_start[record[1]].append(index)
    known, listed, unlisted = {}, set(), set()
    for start, indices in of_start.items():
        known[start] = _lives_of(heap, indices, partner, unlisted)
    for record in heap.live:
        if record[0] in starts:
            listed.add((record[0], record[3]))
            _add_live(known[record[0]], record)
    read = integer(heap.about, "read_ns") or 0
    for found in known.values():
        life = found[-1] if heap.live_read and found else None
        if life and life.allocated and not life.end and life.begun <= read:
            if (life.start, life.begun) not in listed and (life.start, life.begun) not in unlisted:
                life.end = "unseen"
    return [life for found in known.values() for life in found]


def _is_realloc(before, record):
    return (
        (before[5], record[5]) == (FREED, ALLOCATED)
        and record[6] in REALLOC
        and record[6] == before[6]
        and record[3] == before[3]
    )


def _lives_of(heap, indices, partner, unlisted):
    found = []
    for position in range(len(indices)):
        # Of equal times, what can have been comes first: a realloc's free is written when it returns.
        for later in range(position, len(indices)):
            if heap.history[indices[later]][0] != heap.history[indices[position]][0]:
                break
            if _fits(found, heap.history[indices[later]]):
                indices.insert(position, indices.pop(later))
                break
        index = indices[position]
        t_ns, address, size, stack, tid, kind, function, flags, _ = heap.history[index]
        event, other = Event(t_ns, stack, tid, function), partner.get(index)
        if kind == ALLOCATED:
            if found and not found[-1].end:
                found[-1].end, found[-1].over = "reused", t_ns
            found.append(Life(address, size, True, event))
            found[-1].resized_from = (other[1], other[2]) if other else None
            if flags & UNLISTED:
                unlisted.add((address, t_ns))
        elif kind == FREED:
            if found and found[-1].end and found[-1].freed and flags & UNKNOWN:
                found[-1].again.append(event)
                continue
            if not found or found[-1].end:
                found.append(Life(address, size, not flags & UNKNOWN))
            found[-1].freed, found[-1].over, found[-1].end = event, t_ns, "freed"
            found[-1].resized_to = (other[1], other[2]) if other else None
    return found


def _fits(found, record):
    if not found:
        return record[5] == ALLOCATED or not record[7] & UNKNOWN
    return (not found[-1].end) == (record[5] == FREED)


def _add_live(found, record):
    address, size, stack, t_ns, tid, function = record
    event = Event(t_ns, stack, tid, function)
    for life in found:
        if life.allocated and life.begun >= t_ns:
            return
        if not life.allocated and life.freed and t_ns <= life.freed.t_ns:
            life.allocated, life.size, life.known = event, size, True
            return
    if found and not found[-1].end:
        found[-1].end, found[-1].over = "reused", t_ns
    found.append(Life(address, size, True, event))


def _is_stray_free(life, covering):
    """What was freed there was no allocation of its own, but a pointer into one that was alive."""
    if life.allocated or life.known or not life.freed:
        return False
    return any(other.start != life.start and other.alive_at(life.freed.t_ns) for other in covering)


class Biography:
    """where: "", "inside", "past", "before"; offset: from the start, past the end, before the start."""

    def __init__(self, heap, address, t_ns):
        self.address, self.t_ns = address, t_ns
        self.where, self.offset, self.life = "", 0, None
        self.previous, self.earlier, self.below, self.above = None, 0, None, None
        begun = [life for life in lives(heap, address) if life.begun <= t_ns]
        covering = [life for life in begun if life.covers(address)][::-1]  # of one time the later one first
        covering = [life for life in covering if not _is_stray_free(life, covering)]
        covering.sort(key=lambda life: life.rank(t_ns), reverse=True)
        beside = [life for life in begun if life.known and not life.covers(address)]
        past = self.nearest(life for life in beside if 0 <= address - life.past < NEAR)
        before = self.nearest(life for life in begun if 0 < life.start - address < NEAR)
        if covering:
            self.where, self.life, self.offset = "inside", covering[0], address - covering[0].start
            self.previous = covering[1] if len(covering) > 1 else None
            self.earlier = max(len(covering) - 2, 0)
            self.below = past if past and past.alive_at(t_ns) else None
        elif past:
            self.where, self.life, self.offset = "past", past, address - past.past
            self.above = before if before and before.alive_at(t_ns) else None
        elif before:
            self.where, self.life, self.offset = "before", before, before.start - address

    def nearest(self, found):
        def key(life):
            away = self.address - life.past if life.start < self.address else life.start - self.address
            alive, rank = life.rank(self.t_ns)
            return not alive, away, -rank

        return min(found, key=key, default=None)

    def ended(self, life):
        """How, as of then: a free that was later has not happened yet."""
        return life.end if life.over <= self.t_ns or life.end == "unseen" else ""
