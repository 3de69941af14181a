"""The recorded calls that made, changed or removed mappings, and which memory each was about."""

import collections

import gdb

from . import event_text
from .text import get, integer, number, string

PAGE = 4096
# A sieve for timeline lines; brk, mmap, munmap, mremap, mprotect, pkey_mprotect, madvise, and exec that ends them all.
NAMES = (b'"brk"', b'map"', b"mprotect", b'"madvise"', b'"exec"')

# did: what it did to [start, end); event: the timeline's.
MappingCall = collections.namedtuple("MappingCall", "did start end event")


def page_up(length):
    return (length + PAGE - 1) & -PAGE


def argument(event, index):
    args = get(event, "args")
    value = args[index] if isinstance(args, list) and index < len(args) else None
    return 0 if value == "NULL" else number({"value": value}, "value")


def of_event(event):
    """What a call did: none, one, or two pieces (mremap).  Only what its record proves."""
    name, delta = string(event, "name"), integer(event, "memory", "delta")
    in_flight, ret = get(event, "in_flight") is True, integer(event, "ret")
    if get(event, "error") is not None or (ret is None and not in_flight):
        return
    place = None if ret is None else ret & ((1 << 64) - 1)
    first, second, third = (argument(event, index) for index in range(3))
    whole = string(event, "kind") == "syscall"  # with its arguments; "alloc" has address and delta only
    if name in ("mmap", "mmap2") and place is not None:
        length = second if whole else delta
        if length and length > 0:
            yield MappingCall("mapped", place, place + page_up(length), event)
    elif name == "munmap":
        start, length = (first, second) if whole else (place, -delta if delta else None)
        if start is not None and length and length > 0:
            yield MappingCall("being unmapped" if in_flight else "unmapped", start, start + page_up(length), event)
    elif name == "mremap" and whole and place is not None and None not in (first, second, third):
        if place != first:
            yield MappingCall("moved away", first, first + page_up(second), event)
        elif third < second:
            yield MappingCall("unmapped", first + page_up(third), first + page_up(second), event)
        grown = place if place != first else first + page_up(second)
        yield MappingCall("mapped", grown, place + page_up(third), event)
    elif name == "brk" and place is not None and delta:
        if delta > 0:
            yield MappingCall("mapped", page_up(place - delta), page_up(place), event)
        else:
            yield MappingCall("unmapped", page_up(place), page_up(place - delta), event)
    elif name in ("mprotect", "pkey_mprotect") and whole and not in_flight and first is not None and second:
        yield MappingCall("its protection set", first, first + page_up(second), event)
    elif name == "madvise" and whole and not in_flight and first is not None and second:
        if str((get(event, "args") or [None] * 3)[2]) in ("MADV_DONTNEED", "MADV_FREE", "MADV_REMOVE"):
            yield MappingCall("its contents given up", first, first + page_up(second), event)


def covering(bundle, address):
    """Those that were about address, oldest first."""
    found, born = [], number(bundle.incident(), "process", "exec_ns") or 0
    try:
        for event in bundle.lines("timeline.jsonl", NAMES):
            when = integer(event, "t_ns")
            if string(event, "kind") == "exec":
                found.clear()  # another program, another address space
            elif when is not None and when >= born and string(event, "kind") in ("syscall", "alloc"):
                found.extend(call for call in of_event(event) if call.start <= address < call.end)
    except gdb.GdbError:
        return []
    return found


def line(call, trigger, threads):
    event = call.event
    shown = event_text.call(event) if string(event, "kind") == "syscall" else event_text.what(event)
    when = event_text.relative_time((integer(event, "t_ns") or 0) - trigger).strip()
    return "%s at %s by %s, %s" % (call.did, when, shown, threads(integer(event, "tid")))
