"""The subcommands that show one file of the bundle each."""

import os

import gdb

from . import debuggee, event_text
from .bundle import bundle
from .command import Subcommand
from .text import field, get, integer, items, number, printable, string, text, tone, write
from .timeline import show_events


def verdict_lines(incident):
    """What most likely happened, and under each claim the facts it rests on."""
    for claim in items(incident, "verdict", "claims"):
        yield tone("1", text(claim, "claim"))
        facts = get(claim, "facts")
        for fact in facts if isinstance(facts, list) else []:
            yield "  - " + printable(fact)


class Summary(Subcommand):
    """What happened, to what, and why the rule fired."""

    name = "summary"

    def show(self):
        incident = bundle().incident()
        for line in verdict_lines(incident):
            write(line)
        write(tone("1", text(incident, "summary")))
        for label, path in (
            ("time", ("time",)),
            ("rule", ("rule",)),
            ("kind", ("kind",)),
            ("comm", ("process", "comm")),
            ("pid", ("process", "pid")),
            ("exe", ("process", "exe")),
            ("on host", ("process", "exe_on_host")),
            ("build-id", ("process", "build_id")),
            ("command", ("process", "cmdline")),
            ("unit", ("process", "unit")),
            ("container", ("process", "container")),
            ("named", ("process", "container_info", "name")),
            ("image", ("process", "container_info", "image")),
            ("parent", ("process", "parent_comm")),
            ("signal", ("signal", "name")),
            ("code", ("signal", "code_name")),
            ("address", ("signal", "address")),
            ("thread", ("thread", "tid")),
        ):
            if get(incident, *path) not in (None, ""):
                field(label, text(incident, *path))
        if integer(incident, "signal", "sender", "pid") is not None:
            sender = get(incident, "signal", "sender")
            field("sent by", "%s[%s], uid %s" % (text(sender, "comm"), text(sender, "pid"), text(sender, "uid")))
        field("core", opened_core() or core_text(incident))


def opened_core():
    """The core that was loaded, as whoever loaded it set INCIDENT_CORE and INCIDENT_CORE_JOIN; "" if nobody did."""
    file, join = os.environ.get("INCIDENT_CORE"), os.environ.get("INCIDENT_CORE_JOIN")
    if not file:
        return ""
    return printable(file) + (" (%s)" % ("mini core" if join == "mini" else printable(join) + " join") if join else "")


def core_text(incident):
    """What became of the core, as the bundle knows."""
    join, file = string(incident, "core", "join"), string(incident, "core", "file")
    if join in ("exact", "window") and file:
        return "%s (%s join)%s" % (file, join, ", truncated" if get(incident, "core", "truncated") is True else "")
    return "none: " + (string(incident, "core", "reason") or "the bundle does not say why")


class Threads(Subcommand):
    """Every thread of the bundle: gdb's number for it, its name, its last call.

A * stands before the thread it happened in."""

    name = "threads"

    def show(self):
        known, happened_in = debuggee.threads(), number(bundle().incident(), "thread", "tid")
        for thread in bundle().threads():
            tid = number(thread, "tid")
            died = get(thread, "crashed") is True or (tid is not None and tid == happened_in)
            num = "thread %d" % known[tid].num if tid in known else "not in core"
            line = "%s %-11s  %s[%s]  %s" % (
                "*" if died else " ",
                num,
                text(thread, "comm"),
                text(thread, "tid"),
                self.call(thread),
            )
            write(tone("1", line) if died else line)
            if string(thread, "missing"):
                write("%15s%s" % ("", string(thread, "missing")))

    @staticmethod
    def call(thread):
        call = get(thread, "syscall")
        if not isinstance(call, dict):
            return text(thread, "syscall")
        return ("in " if get(call, "in_flight") is True else "after ") + event_text.call(call)


class Files(Subcommand):
    """Files opened or looked for: the recorded calls that name a path, and before them what is remembered of those
that are no more, each path once.

Those that were open in the end: incident fds"""

    name = "files"

    def show(self):
        show_events(lambda event: get(event, "path") not in (None, ""))


class Fds(Subcommand):
    """The descriptors that were open when the bundle was made.

Position and flags are those of /proc/PID/fdinfo; flags as open(2) knows them."""

    name = "fds"

    # asm-generic/fcntl.h, as x86-64 has it; O_LARGEFILE says nothing there.
    ACCESS = ("read", "write", "read/write", "no access")
    FLAGS = (
        (0o2000, "O_APPEND"),
        (0o4000, "O_NONBLOCK"),
        (0o10000, "O_DSYNC"),
        (0o40000, "O_DIRECT"),
        (0o200000, "O_DIRECTORY"),
        (0o2000000, "O_CLOEXEC"),
        (0o10000000, "O_PATH"),
    )

    def show(self):
        entries, shown, sockets = bundle().lines("process/fds"), 0, self.sockets()
        for entry in entries:
            where = text(entry, "pos")
            where = "  at " + where if where else ""
            target = text(entry, "target")
            target = sockets.get(target, target)
            write("%6s  %s%s%s" % (text(entry, "fd"), target, where, self.how(entry)))
            shown += 1
        if not shown:
            write("No descriptor was open.")
        entries.complain()
        for collector in items(bundle().incident(), "quality", "collectors"):
            if text(collector, "name") == "fds" and get(collector, "error") not in (None, ""):
                write(tone("33", "not all: " + text(collector, "error")))

    @staticmethod
    def sockets():
        """Whom they talk to, by what the links of descriptors name them."""
        if not bundle().has("process/sockets"):
            return {}
        found = bundle().lines("process/sockets")
        return {
            "socket:[%s]" % text(one, "inode"): "%s %s" % (text(one, "target"), text(one, "state")) for one in found
        }

    def how(self, entry):
        try:
            flags = int(get(entry, "flags"), 8)
        except (TypeError, ValueError):
            return ""
        return "  " + "|".join([self.ACCESS[flags & 3]] + [name for bit, name in self.FLAGS if flags & bit])


class Signals(Subcommand):
    """Signals sent to and received by the process."""

    name = "signals"

    def show(self):
        show_events(lambda event: get(event, "kind") == "signal")


class Quality(Subcommand):
    """What the bundle holds completely, and what was lost or not collected."""

    name = "quality"

    def show(self):
        quality = get(bundle().incident(), "quality")
        write("complete" if get(quality, "complete") is True else "incomplete")
        reasons = get(quality, "incomplete_because")
        for reason in reasons if isinstance(reasons, list) else []:
            write("  because: " + text({"reason": reason}, "reason"))
        for key in ("threads", "threads_captured", "recorded", "left_out", "overwritten", "lost"):
            field(key, text(quality, key), 17)
        for loss in items(quality, "losses"):
            write("  lost %s: %s (%s)" % (text(loss, "count"), text(loss, "where"), text(loss, "reason")))
        for collector in items(quality, "collectors"):
            if get(collector, "error") not in (None, ""):
                write("  collector %s: %s" % (text(collector, "name"), text(collector, "error")))
        for probe in items(quality, "probes"):
            if get(probe, "state") not in (None, "active"):
                write("  probe %s %s: %s" % (text(probe, "name"), text(probe, "state"), text(probe, "reason")))


class Incident(gdb.Command):
    """What led to this core: the incident bundle that incidentd recorded.

incident summary             what happened
incident timeline [THREAD]   the recorded events before it
incident threads             every thread's last call
incident explain [ADDRESS]   what an address is, or was: the faulting one by default
incident files               files recently opened or looked for
incident fds                 open descriptors
incident memory              resident memory, limits, growth
incident signals             signals sent and received
incident quality             what is complete and what was lost
incident values [PREFIX]     what $_incident("...") can tell, for expressions and scripts"""

    def __init__(self):
        super().__init__("incident", gdb.COMMAND_STATUS, gdb.COMPLETE_COMMAND, True)
