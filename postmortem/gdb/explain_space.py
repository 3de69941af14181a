"""Where in the address space an address lies: halves, null page, mapping and neighbours, heap."""

from . import debuggee
from .text import ADDRESS_MASK, distance, number, printable

PAGE = 4096
NEIGHBOUR = 1 << 30  # a mapping farther away has little to do with an address
GUARD = 1 << 20  # likewise, of one in memory without access
LOWEST = PAGE  # below it an address is an offset of a null pointer
# Documentation/arch/x86/x86_64/mm.rst: with 4 levels of page tables addresses have 48 bits, with 5 levels 57; the
# bits above are copies of the topmost.
USER_END_4, KERNEL_START_4 = 1 << 47, (1 << 64) - (1 << 47)
USER_END_5, KERNEL_START_5 = 1 << 56, (1 << 64) - (1 << 56)


def place(question):
    address = question.address
    if question.mapping or not (debuggee.is_x86_64() or debuggee.is_i386()):
        return
    if address < LOWEST:
        yield "null", "in the first page, at offset %d (0x%x) of a null pointer" % (address, address)
    elif address >= KERNEL_START_4:
        yield "kernel", "in the kernel's half of the address space: no program can touch it"
    elif address >= KERNEL_START_5:
        yield "place", "not canonical with 48-bit addresses; in the kernel's half where they have 57 bits"
    elif address >= USER_END_5:
        yield "place", "not canonical: no x86-64 address has these upper bits"
    elif address >= USER_END_4:
        yield "place", "not canonical with 48-bit addresses, which a program has unless it asked for 57-bit ones"
    yield from looks_like_text(address)


def looks_like_text(address):
    """An address that was overwritten by a string."""
    data = address.to_bytes(8, "little").rstrip(b"\0")
    if len(data) >= 5 and all(0x20 <= byte < 0x7f for byte in data):
        yield "bytes", 'in memory these are the characters "%s"' % printable(data.decode())


def mapping(question):
    address, found = question.address, question.mapping
    if found:
        where = "%s into it" % distance(address - found.start)
        if found.is_file:
            where = "file offset 0x%x" % (found.offset + address - found.start)
        yield "mapping", "%s: %s" % (found, where)
        if found.permissions:
            yield from denied(found)
            if found.no_access:
                yield from neighbours(question, GUARD)
    elif not question.maps.complete:
        if question.maps.all:
            yield "mapping", "in no file's mapping; the bundle has no list of the others (process/maps)"
    elif address < USER_END_4 or not debuggee.is_x86_64():
        yield "mapping", "not mapped"
        if address >= LOWEST:
            yield from neighbours(question)


def denied(found):
    actions = (("r", "reading"), ("w", "writing"), ("x", "executing"))
    missing = [action for letter, action in actions if letter not in found.permissions]
    if missing:
        yield "access", "its permissions forbid %s" % (", ".join(missing))


def neighbours(question, within=NEIGHBOUR):
    """What ends below and starts above, where one could have run out of it; the nearer one however far it is."""
    address = question.address
    start, end = (question.mapping.start, question.mapping.end) if question.mapping else (address, address)
    below, above = question.maps.below(start), question.maps.above(max(end - 1, address))
    far_below = address - below.end if below else ADDRESS_MASK
    far_above = above.start - address if above else ADDRESS_MASK
    if below and (far_below < within or (not question.mapping and far_below <= far_above)):
        where = "%s past" % distance(far_below) if far_below else "the first byte past"
        yield "below", "%s the end of %s" % (where, below)
    if above and (far_above < within or (not question.mapping and far_above < far_below)):
        yield "above", "%s before the start of %s" % (distance(far_above), above)


def layout(question):
    """The kernel's own account of the break, the arguments and the environment, as of the trigger."""
    known = {}
    for name in ("start_brk", "brk", "arg_start", "arg_end", "env_start", "env_end"):
        known[name] = number(question.bundle.incident(), "memory", "layout", name) or 0
    address = question.address
    if known["start_brk"] <= address < known["brk"]:
        yield "heap", "%s from the start of the brk heap, %s before its end" % (
            distance(address - known["start_brk"]),
            distance(known["brk"] - address),
        )
    for start, end, what in (("arg_start", "arg_end", "arguments"), ("env_start", "env_end", "environment")):
        if known[start] <= address < known[end]:
            yield "strings", "%s into the program's %s" % (distance(address - known[start]), what)
