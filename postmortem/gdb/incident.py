"""gdb commands that show an incident bundle beside its core.  One file, because gdb sources one.

`incidentctl gdb` loads this file.  In a gdb session of your own:
  (gdb) python import os; os.environ["INCIDENT_BUNDLE"] = "/var/lib/incidentd/incidents/NAME"
  (gdb) source /usr/share/incidentd/gdb/incident.py

Whatever stands in a bundle was written by the process that died, or by whoever
sent the bundle: every text is escaped before it is printed.
"""

import collections
import json
import os
import unicodedata

import gdb

FILE_MAX = 64 << 20
LINE_MAX = 1 << 20
EVENTS_SHOWN = 40


def printable(value):
    """value as one line that no terminal acts upon."""
    out = []
    for char in value if isinstance(value, str) else json.dumps(value):
        if char == "\n":
            out.append("\\n")
        elif char == "\t":
            out.append("\\t")
        elif unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            out.append("\\x%02x" % ord(char) if ord(char) < 256 else "\\u%04x" % ord(char))
        else:
            out.append(char)
    return "".join(out)


def write(line=""):
    gdb.write(line + "\n")


def get(document, *path):
    """The member at path; None where it is missing or something is of another type."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def text(document, *path):
    value = get(document, *path)
    return "" if value is None else printable(value)


def number(document, *path):
    """Integers, also written as "0x1f"; None otherwise."""
    value = get(document, *path)
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            return int(value, 0)
        except ValueError:
            return None
    return value if isinstance(value, int) else None


def items(document, *path):
    value = get(document, *path) if path else document
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def span(ns):
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if abs(ns) >= size:
            return "%.4g %s" % (ns / size, unit)
    return "%d ns" % ns


class Bundle:
    def __init__(self, path):
        self.path = path

    def open(self, name):
        descriptor = os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        return open(descriptor, "rb")

    def document(self, name):
        try:
            with self.open(name) as file:
                data = file.read(FILE_MAX + 1)
            if len(data) > FILE_MAX:
                raise gdb.GdbError("%s is larger than %d MiB" % (name, FILE_MAX >> 20))
            return json.loads(data)
        except OSError as error:
            raise gdb.GdbError("cannot read %s of the bundle: %s" % (name, error.strerror))
        except (ValueError, RecursionError):
            raise gdb.GdbError("%s of the bundle is corrupt" % name)

    def lines(self, name):
        """Each line's object; lines that hold none are passed over."""
        try:
            with self.open(name) as file:
                while True:
                    line = file.readline(LINE_MAX)
                    if not line:
                        return
                    try:
                        event = json.loads(line)
                    except (ValueError, RecursionError):
                        continue
                    if isinstance(event, dict):
                        yield event
        except OSError as error:
            raise gdb.GdbError("cannot read %s of the bundle: %s" % (name, error.strerror))

    def incident(self):
        return self.document("incident.json")

    def trigger(self):
        return number(self.incident(), "clocks", "trigger_ns") or 0


def bundle():
    path = os.environ.get("INCIDENT_BUNDLE")
    if not path:
        raise gdb.GdbError("no bundle: INCIDENT_BUNDLE is not set ('incidentctl gdb' does)")
    return Bundle(path)


def gdb_threads():
    """LWP → gdb's thread; in a core the LWP is the tid the kernel knew."""
    return {thread.ptid[1] or thread.ptid[2]: thread for thread in gdb.selected_inferior().threads()}


def call_text(call):
    """A system call as strace would print it."""
    args = get(call, "args")
    shown = "%s(%s)" % (text(call, "name"), ", ".join(map(printable, args)) if isinstance(args, list) else "")
    if get(call, "in_flight") is True:
        return shown + " = ? <in flight>"
    if text(call, "error"):
        shown += " = -1 " + text(call, "error")
    else:
        shown += " = " + (text(call, "ret_text") or text(call, "ret") or "?")
    duration = number(call, "duration_ns")
    return shown if duration is None else shown + " <%s>" % span(duration)


def signal_text(event):
    parts = [text(event, "code_name"), text(event, "address")]
    if get(event, "sender", "pid") is not None:
        parts.append("from %s[%s]" % (text(event, "sender", "comm"), text(event, "sender", "pid")))
    parts.append(text(event, "disposition") or text(event, "result"))
    return "--- %s %s {%s} ---" % (text(event, "name"), text(event, "phase"), ", ".join(filter(None, parts)))


def event_line(event, trigger):
    when, kind = number(event, "t_ns"), get(event, "kind")
    if kind in ("syscall", "open"):
        shown = call_text(event)
    elif kind == "signal":
        shown = signal_text(event)
    else:
        parts = (text(event, key) for key in ("kind", "name", "path", "comm", "child", "status_text"))
        shown = "*** %s ***" % " ".join(filter(None, parts))
    before = "%+.6f s" % ((when - trigger) / 1e9) if when is not None else "?"
    return "%14s  %-7s %s" % (before, text(event, "tid"), shown)


def show_events(wanted, last):
    trigger = bundle().trigger()
    kept = collections.deque((e for e in bundle().lines("timeline.jsonl") if wanted(e)), maxlen=last)
    for event in kept:
        write(event_line(event, trigger))
    if not kept:
        write("No such event was recorded.")


class IncidentPrefix(gdb.Command):
    """What led to this core: the incident bundle that incidentd recorded.

incident summary    what happened
incident timeline   the recorded events before it
incident threads    every thread's last call
incident files      open and recently opened files
incident signals    signals sent and received
incident quality    what is complete and what was lost"""

    def __init__(self):
        super().__init__("incident", gdb.COMMAND_STATUS, gdb.COMPLETE_COMMAND, True)


class Summary(gdb.Command):
    """What happened, to what, and why the rule fired."""

    def __init__(self):
        super().__init__("incident summary", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        incident = bundle().incident()
        write(text(incident, "summary"))
        for label, path in (
            ("time", ("time",)),
            ("rule", ("rule",)),
            ("kind", ("kind",)),
            ("comm", ("process", "comm")),
            ("pid", ("process", "pid")),
            ("exe", ("process", "exe")),
            ("build-id", ("process", "build_id")),
            ("command", ("process", "cmdline")),
            ("unit", ("process", "unit")),
            ("signal", ("signal", "name")),
            ("code", ("signal", "code_name")),
            ("address", ("signal", "address")),
            ("thread", ("thread", "tid")),
        ):
            if get(incident, *path) not in (None, ""):
                write("%10s  %s" % (label, text(incident, *path)))


class Timeline(gdb.Command):
    """The recorded events before the incident; times are relative to it.

Usage: incident timeline [THREAD] [-n N] [-kind KIND]
THREAD is gdb's thread number, or a tid.  The last 40 events unless -n says otherwise."""

    def __init__(self):
        super().__init__("incident timeline", gdb.COMMAND_STATUS)

    def complete(self, line, word):
        if line.split()[-1:] == ["-kind"] or (line.split()[-2:-1] == ["-kind"] and word):
            kinds = {text(event, "kind") for event in bundle().lines("timeline.jsonl")}
            return sorted(kind for kind in kinds if kind.startswith(word or ""))
        return [option for option in ("-n", "-kind") if option.startswith(word or line)]

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        tid, kind, last = None, None, EVENTS_SHOWN
        while words:
            word = words.pop(0)
            if word in ("-n", "-kind") and not words:
                raise gdb.GdbError("%s needs a value" % word)
            if word == "-kind":
                kind = words.pop(0)
            elif word == "-n":
                last = self.natural(words.pop(0))
            else:
                tid = self.tid_of(self.natural(word))
        show_events(
            lambda e: (tid is None or number(e, "tid") == tid) and (kind is None or get(e, "kind") == kind), last
        )

    @staticmethod
    def natural(word):
        if not word.isdigit():
            raise gdb.GdbError("'%s' is not a number" % printable(word))
        return int(word)

    @staticmethod
    def tid_of(thread):
        for tid, known in gdb_threads().items():
            if known.num == thread:
                return tid
        return thread


class Threads(gdb.Command):
    """Every thread of the bundle: gdb's number for it, its name, its last call."""

    def __init__(self):
        super().__init__("incident threads", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        known = gdb_threads()
        for thread in items(bundle().document("threads.json")):
            tid = number(thread, "tid")
            mark = "*" if get(thread, "crashed") is True else " "
            num = "thread %d" % known[tid].num if tid in known else "not in core"
            write("%s %-11s  %s[%s]  %s" % (mark, num, text(thread, "comm"), text(thread, "tid"), self.call(thread)))

    @staticmethod
    def call(thread):
        call = get(thread, "syscall")
        if not isinstance(call, dict):
            return text(thread, "syscall")
        return ("in " if get(call, "in_flight") is True else "after ") + call_text(call)


class Files(gdb.Command):
    """Files that were open, and those recently opened or looked for."""

    def __init__(self):
        super().__init__("incident files", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        write("Open descriptors:")
        try:
            for entry in bundle().lines("process/fds"):
                write("%6s  %s" % (text(entry, "fd"), text(entry, "target")))
        except gdb.GdbError as error:
            write("  " + str(error))
        write("Recorded calls that name a path:")
        show_events(lambda event: get(event, "path") not in (None, ""), EVENTS_SHOWN)


class Signals(gdb.Command):
    """Signals sent to and received by the process."""

    def __init__(self):
        super().__init__("incident signals", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        show_events(lambda event: get(event, "kind") == "signal", EVENTS_SHOWN)


class Quality(gdb.Command):
    """What the bundle holds completely, and what was lost or not collected."""

    def __init__(self):
        super().__init__("incident quality", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        quality = get(bundle().incident(), "quality")
        write("complete" if get(quality, "complete") is True else "incomplete")
        for key in ("threads", "threads_captured", "recorded", "overwritten", "lost"):
            write("%17s  %s" % (key, text(quality, key)))
        for loss in items(quality, "losses"):
            write("  lost %s: %s (%s)" % (text(loss, "count"), text(loss, "where"), text(loss, "reason")))
        for collector in items(quality, "collectors"):
            if get(collector, "error") not in (None, ""):
                write("  collector %s: %s" % (text(collector, "name"), text(collector, "error")))
        for probe in items(quality, "probes"):
            if get(probe, "state") not in (None, "active"):
                write("  probe %s %s: %s" % (text(probe, "name"), text(probe, "state"), text(probe, "reason")))


def start():
    for command in (IncidentPrefix, Summary, Timeline, Threads, Files, Signals, Quality):
        command()
    try:
        incident = bundle().incident()
    except gdb.GdbError as error:
        write("incident: " + str(error))
        return
    died = gdb_threads().get(number(incident, "thread", "tid"))
    if died:
        died.switch()
    join = os.environ.get("INCIDENT_CORE_JOIN")
    write("Incident  %s" % printable(os.path.basename(bundle().path)))
    write("  what    %s" % text(incident, "summary"))
    write("  when    %s, rule %s" % (text(incident, "time"), text(incident, "rule")))
    write("  core    %s%s" % (printable(os.environ.get("INCIDENT_CORE", "?")), " (%s join)" % join if join else ""))
    write("  thread  %s" % ("%d, tid %d, selected" % (died.num, died.ptid[1]) if died else "the one that died is not in the core"))
    write("  see     incident summary | timeline | threads | files | signals | quality")


start()
