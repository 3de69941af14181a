"""`incident memory`: how much there was, what limits it, what was growing."""

from . import event_text, maps, timeline
from .bundle import bundle
from .command import Subcommand
from .text import duration, field, get, integer, items, size, text, write

EVENTS_SHOWN = 10
MAPPINGS_SHOWN = 5
STACKS_SHOWN = 5
# cgroup v2's names, then v1's.
CGROUP_FILES = (("memory.current", "memory.usage_in_bytes"), ("memory.max", "memory.limit_in_bytes"), ("memory.high",))
CGROUP_V1_UNLIMITED = 0x7FFFFFFFFFFFF000  # PAGE_COUNTER_MAX in bytes
# /proc/PID/limits that memory runs into.
LIMITS = ("Max address space", "Max data size", "Max stack size", "Max locked memory", "Max resident set")


class Memory(Subcommand):
    """Resident memory, its limits, the heap's account, the largest mappings, and the recorded calls that changed them."""

    name = "memory"

    def show(self):
        incident = bundle().incident()
        resident(get(incident, "memory"))
        rollup()
        limits()
        cgroup()
        heap(get(incident, "heap"), bundle().trigger())
        samples(items(incident, "memory", "samples"))
        mappings()
        growth()


def show_sizes(label, pairs):
    shown = ["%s %s" % (name, size(value)) for name, value in pairs if value is not None]
    if shown:
        field(label, ", ".join(shown))


def resident(memory):
    rss = get(memory, "rss_bytes")
    show_sizes("resident", [(name, integer(rss, name)) for name in ("total", "anon", "file", "shmem")])
    show_sizes("", [("at most", peak(memory, "peak_rss_bytes", rss, "total")), ("swap", integer(memory, "swap_bytes"))])
    most = peak(memory, "peak_vm_bytes", memory, "vm_bytes")
    show_sizes("address", [("space", integer(memory, "vm_bytes")), ("at most", most)])
    if integer(memory, "minor_faults") is not None:
        field("faults", "%d minor, %s major" % (integer(memory, "minor_faults"), integer(memory, "major_faults")))
    if not isinstance(rss, dict):  # of an older daemon: the kernel's text, read a little later
        status = kilobytes(bundle().plain("process/status"))
        names = ("VmRSS", "VmHWM", "RssAnon", "RssFile", "VmSwap")
        show_sizes("resident", [(name, status.get(name)) for name in names])


def peak(memory, key, now, now_key):
    """The kernel moves its high-water marks only when it looks: what there is now may be more."""
    marked, present = integer(memory, key), integer(now, now_key)
    return marked if present is None or marked is None else max(marked, present)


def kilobytes(plain):
    """ "VmRSS:  13900 kB" → {"VmRSS": bytes}"""
    known = {}
    for line in plain.split("\n"):
        words = line.split()
        if len(words) == 3 and words[0].endswith(":") and words[2] == "kB" and words[1].isdigit():
            known[words[0][:-1]] = int(words[1][:15]) << 10
    return known


def rollup():
    known = kilobytes(bundle().plain("process/smaps_rollup"))
    names = (("private dirty", "Private_Dirty"), ("private clean", "Private_Clean"), ("shared", "Shared_Clean"))
    show_sizes("pages", [(name, known.get(key)) for name, key in names] + [("proportional", known.get("Pss"))])


def limits():
    shown = []
    for line in bundle().plain("process/limits").split("\n"):
        name = next((name for name in LIMITS if line.startswith(name)), None)
        words = line[len(name) :].split() if name else []
        if words and words[0].isdigit():
            shown.append("%s %s" % (name[4:], size(int(words[0][:20]))))
    if bundle().has("process/limits"):
        field("limits", ", ".join(shown) or "none on memory")


def cgroup():
    shown = []
    for names in CGROUP_FILES:
        for name in names:
            words = bundle().plain("cgroup/" + name).split()
            if words and words[0].isdigit() and int(words[0][:20]) < CGROUP_V1_UNLIMITED:
                shown.append("%s %s" % (name, size(int(words[0][:20]))))
            elif words:
                shown.append(name + " unlimited")
    if shown:
        field("cgroup", ", ".join(shown))


def heap(known, trigger):
    """The recorded heap's account, and the call stacks that grew."""
    if not isinstance(known, dict):
        return
    since = integer(known, "since_ns")
    if not since:
        return field("heap", "not recorded: " + text(known, "reason"))
    field("heap", "%s, recorded since %s before" % (text(known, "level"), duration(trigger - since)))
    account, window = get(known, "account"), get(known, "in_window")
    counts = [integer(account, name) or 0 for name in ("live", "allocations", "frees")]
    sizes = [size(integer(account, name) or 0) for name in ("live_bytes", "allocated_bytes", "freed_bytes")]
    field("", "%d allocations alive (%s); %d made (%s), %d freed (%s)" % tuple(sum(zip(counts, sizes), ())))
    grown = (integer(window, "allocated_bytes") or 0) - (integer(window, "freed_bytes") or 0)
    lately = duration(integer(known, "window", "ns") or 0)
    field("", "in the last %s: grown by %s" % (lately, size(grown)))
    for stack in items(known, "growing")[:STACKS_SHOWN]:
        field("growing", "%s by %s" % (size(integer(stack, "bytes") or 0), text(stack, "place") or text(stack, "stack")))


def samples(taken):
    """Of a rule that watches memory: how it grew."""
    known = [(integer(sample, "t_ns"), integer(sample, "rss")) for sample in taken]
    known = [(when, rss) for when, rss in known if when is not None and rss is not None]
    trigger = bundle().trigger()
    for when, rss in known[-EVENTS_SHOWN:]:
        field("sampled", "%s  %s" % (event_text.relative_time(when - trigger), size(rss)))


def mappings():
    known = maps.of_bundle(bundle())
    if not known.complete:
        return
    largest = sorted(known.all, key=lambda mapping: mapping.start - mapping.end)[:MAPPINGS_SHOWN]
    field("mappings", "%d; the largest:" % len(known.all))
    for mapping in largest:
        field("", "%10s  %s %s" % (size(mapping.end - mapping.start), mapping.permissions, mapping.what()))


def growth():
    """The recorded calls that changed the address space; rss in each is what it was then."""
    trigger, events = bundle().trigger(), bundle().lines("timeline.jsonl", (b'"memory"',))
    kept, gained, given = [], 0, 0
    for event in events:
        delta = integer(event, "memory", "delta")
        if delta is None and integer(event, "memory", "rss") is None:
            continue
        kept.append(event)
        gained, given = gained + max(delta or 0, 0), given - min(delta or 0, 0)
    if not kept:
        return field("recorded", "no call that changed mappings")
    made = sum(integer(thread, "accounting", "memory_events") or 0 for thread in timeline.thread_list(bundle()))
    count = "%d calls" % len(kept) if made <= len(kept) else "the last %d of %d calls" % (len(kept), made)
    field("recorded", "%s: %s asked for, %s given back" % (count, size(gained), size(given)))
    first, last = integer(kept[0], "memory", "rss"), integer(kept[-1], "memory", "rss")
    if len(kept) > 1 and first is not None and last is not None:
        field("", "resident %s at the first, %s at the last" % (size(first), size(last)))
    if len(kept) > EVENTS_SHOWN:
        field("", "the last %d:" % EVENTS_SHOWN)
    for event in kept[-EVENTS_SHOWN:]:
        write(event_text.line(event, trigger))
