"""The biography of a pointer in words: as postmortem/heap/describe.cpp has them."""

import gdb

from .text import duration, integer, number, printable, string

# enum heap_function of bpf/heap.h, from 1
FUNCTIONS = (
    "malloc calloc realloc reallocarray aligned_alloc posix_memalign new mallocx rallocx xallocx free delete".split()
)


class Words:
    """How a biography is said."""

    ENDS = {
        "": "alive",
        "reused": "given out again, its free not recorded",
        "unseen": "no longer known as alive, its free not recorded",
    }

    def __init__(self, heap, t_ns):
        self.heap, self.t_ns = heap, t_ns
        self.comms = {number(thread, "tid"): string(thread, "comm") for thread in heap.bundle.threads()}

    def when(self, t_ns):
        return duration(abs(self.t_ns - t_ns)) + (" before" if t_ns <= self.t_ns else " after")

    def thread(self, tid):
        return "%s[%d]" % (self.comms[tid], tid) if tid in self.comms else "thread %d" % tid

    def event(self, event):
        text = "by " + (place(self.heap, event.stack) or "an unknown caller")
        if 0 < event.function <= len(FUNCTIONS) and FUNCTIONS[event.function - 1] not in ("malloc", "free"):
            name = FUNCTIONS[event.function - 1]
            text += " with " + ("operator " + name if name in ("new", "delete") else name)
        return "%s, in %s, %s" % (text, self.thread(event.tid), self.when(event.t_ns))

    @staticmethod
    def bytes(count):
        return "%d byte%s" % (count, "" if count == 1 else "s")

    def size(self, life):
        return "of " + self.bytes(life.size) if life.known else "of unknown size"

    def block(self, block):
        return "%s at 0x%x" % (self.bytes(block[1]), block[0])

    def where(self, biography):
        life, off = biography.life, biography.offset
        if biography.where == "before":
            text = self.bytes(off) + " before the start of"
        elif biography.where == "past":
            text = self.bytes(off) + " past the end of" if off else "the first byte past the end of"
        else:
            text = self.bytes(off) + " into" if off else "the start of"
        text += " an allocation " + self.size(life)
        if biography.where != "inside" or off:
            text += " at 0x%x" % life.start
        ended = biography.ended(life)
        return text + (", freed " + self.when(life.freed.t_ns) if ended == "freed" else ", " + self.ENDS[ended])

    def lines(self, biography):
        life = biography.life
        if life.resized_from:
            when = self.event(life.allocated) if life.allocated else "when is not known"
            yield "resized from %s, %s" % (self.block(life.resized_from), when)
        else:
            yield "allocated " + (self.event(life.allocated) if life.allocated else "before the history begins")
        if life.freed and life.resized_to:
            yield "resized to %s, %s" % (self.block(life.resized_to), self.event(life.freed))
        elif life.freed:
            yield "freed " + self.event(life.freed)
        for again in life.again:
            yield "freed again " + self.event(again)
        if biography.below:
            below = biography.below
            how = self.event(below.allocated) if below.allocated else "before the history begins"
            yield "just below, %s at 0x%x alive, allocated %s" % (self.size(below), below.start, how)
        if biography.above:
            above = biography.above
            yield "just above begins an allocation of %s, alive" % self.block((above.start, above.size))
        if biography.previous:
            previous = biography.previous
            line = "before that, an allocation %s at 0x%x" % (self.size(previous), previous.start)
            if previous.allocated:
                line += ", allocated " + self.event(previous.allocated)
            if previous.freed:
                line += ", freed " + self.event(previous.freed)
            yield line + ("; and %d earlier" % biography.earlier if biography.earlier else "")

    def reach(self):
        """How far back anything is known."""
        since, level = integer(self.heap.about, "since_ns") or 0, string(self.heap.about, "level")
        if not since:
            reason = string(self.heap.about, "reason")
            return "the heap was not recorded" + (": " + reason if reason else "")
        text = "recorded since " + self.when(since)
        if level != "history":
            return text + '; at level "sizes" only what is alive is known'
        begins = integer(self.heap.about, "history", "from_ns") or 0
        return text + ("; the history reaches back to " + self.when(begins) if begins else "; there is no history")


ALLOCATORS = ("malloc", "calloc", "realloc", "reallocarray", "free", "__libc_calloc")
OF_LIBRARY = ("operator new", "operator delete", "std::", "__gnu_cxx::", "__cxxabiv1::")


def place(heap, identity):
    """Who called the allocator: as the analysis named it, else as gdb names the return address; "" not known."""
    frames = heap.named(identity)[1:]
    for frame in frames:
        symbol = string(frame, "symbol")
        if not symbol.startswith(OF_LIBRARY) and symbol not in ALLOCATORS:
            return frame_text(frame)
    if frames:
        return frame_text(frames[0])
    address = heap.return_address(identity)
    return named_by_gdb(address) if address else ""


def frame_text(frame):
    module = string(frame, "module").rpartition("/")[2]
    symbol, off, file = string(frame, "symbol"), integer(frame, "symbol_offset"), string(frame, "file")
    if not symbol:
        return "%s+0x%x" % (module, number(frame, "offset") or 0) if module else string(frame, "ip")
    text = symbol + ("+0x%x" % off if off else "")
    if file:
        return "%s (%s:%d)" % (text, file.rpartition("/")[2], integer(frame, "line") or 0)
    return text + (" (%s)" % module if module else "")


def named_by_gdb(address):
    """A return address: the call is just before it."""
    try:
        found = gdb.execute("info symbol 0x%x" % (address - 1), to_string=True).strip().split("\n")[0]
    except gdb.error:
        return "0x%x" % address
    if not found or found.startswith("No symbol matches"):
        return "0x%x" % address
    text = printable(found.split(" in section ")[0].split(" + ")[0])
    where = gdb.find_pc_line(address - 1)
    if where.symtab and where.line:
        text += " (%s:%d)" % (printable(where.symtab.filename).rpartition("/")[2], where.line)
    return text
