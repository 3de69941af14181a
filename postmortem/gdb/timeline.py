"""`incident timeline`, and which of its events belong to what is selected in gdb."""

import collections

import gdb

from . import debuggee, event_text, frame_call
from .bundle import bundle
from .command import Subcommand, natural
from .text import integer, string, text, tone, write

EVENTS_SHOWN = 40
COMM_COLUMNS = 15
LOGS_SHOWN = 8192  # between the events


def show_events(wanted, last=EVENTS_SHOWN, marks=None, logs_count=False):
    """The last so many events that are wanted, and what was logged since the first of them."""
    incident = bundle()
    # Those that count, and the lines of the log between them, each with its place.
    kept, logs, events = collections.deque(), collections.deque(maxlen=LOGS_SHOWN), incident.lines("timeline.jsonl")
    passed_over, dropped = False, -1
    for place, event in enumerate(events):
        if marks:
            marks.see(event)
        if not wanted(event):
            continue
        if counts(event, logs_count):
            kept.append((place, event))
            if len(kept) > last:
                kept.popleft()
                passed_over = True
        else:
            if len(logs) == LOGS_SHOWN:
                dropped = logs[0][0]
            logs.append((place, event))
    begin = 0 if not passed_over else kept[0][0] if kept else float("inf")
    shown = sorted([*kept, *(log for log in logs if log[0] >= begin)], key=lambda one: one[0])
    names = {integer(thread, "tid"): string(thread, "comm") for thread in thread_list(incident)}
    trigger = incident.trigger()
    for _, event in shown:
        line = event_text.line(event, trigger)
        if len(names) > 1:
            tid = integer(event, "tid")
            line = "%7s %-*s  %s" % ("-" if tid is None else tid, COMM_COLUMNS, names.get(tid, ""), line)
        if marks:
            line = marks.of(event) + " " + line
        write(tone("33", line) if text(event, "error") else line)
    if not shown:
        write("No such event was recorded.")
    if dropped >= begin:
        write("Older lines of the log are not shown: at most %d are." % LOGS_SHOWN)
    events.complain()


def counts(event, logs_count):
    return logs_count or text(event, "kind") != "log"


def thread_list(incident):
    try:
        return incident.threads()
    except gdb.GdbError:
        return []  # the events are worth showing all the same


def tid_of(word):
    """gdb's thread number, or else a tid."""
    wanted, known = natural(word), debuggee.threads()
    return next((tid for tid, thread in known.items() if thread.num == wanted), wanted)


class Timeline(Subcommand):
    """The recorded events before the incident; times are relative to it.

Usage: incident timeline [THREAD|all] [-n N] [-kind KIND]
THREAD is gdb's thread number, or a tid; all threads unless one is given.
The last 40 events unless -n says otherwise.

Marks before an event:
  *   it is of the thread that is selected in gdb
  >   it belongs to the frame that is selected in gdb: the frame is where the thread is inside this
      system call, or has just come back from it, or the library function that made it; or it is
      where the thread took this fatal signal"""

    name = "timeline"

    def candidates(self, before, typed):
        if before[-1:] == ["-kind"]:
            return sorted({string(event, "kind") for event in bundle().lines("timeline.jsonl")} - {""})
        if before[-1:] == ["-n"]:
            return []
        threads = [str(thread.num) for thread in debuggee.threads().values()]
        return ["-n", "-kind"] + (["all"] + threads if all(word.startswith("-") for word in before[::2]) else [])

    def run(self, argument):
        words = gdb.string_to_argv(argument)
        tid, kind, last = None, None, EVENTS_SHOWN
        while words:
            word = words.pop(0)
            if word in ("-n", "-kind") and not words:
                raise gdb.GdbError("%s needs a value" % word)
            if word == "-kind":
                kind = words.pop(0)
            elif word == "-n":
                last = natural(words.pop(0))
            elif word == "all":
                tid = None
            else:
                tid = tid_of(word)

        def wanted(event):
            return tid in (None, integer(event, "tid")) and kind in (None, text(event, "kind"))

        show_events(wanted, last, Marks(bundle()), logs_count=kind == "log")


class Marks:
    """Sees all events in order, then tells the marks of one."""

    def __init__(self, incident):
        self.tid = debuggee.selected_tid()
        self.call_name = self.signal = None
        self.call_event = self.signal_event = None
        if self.tid is not None:
            belonging = frame_call.of_selected_frame(incident, self.tid)
            self.call_name, self.signal = belonging.call_name, belonging.fatal_signal

    def see(self, event):
        if self.tid is None or integer(event, "tid") != self.tid:
            return
        kind = string(event, "kind")
        if kind in ("syscall", "open"):
            self.call_event = event
        elif kind == "signal" and string(event, "disposition") == "fatal" and string(event, "phase") == "delivered":
            self.signal_event = event

    def of(self, event):
        mark = "*" if self.tid is not None and integer(event, "tid") == self.tid else " "
        if event is self.call_event and self.call_name and string(event, "name") == self.call_name:
            return mark + ">"
        if event is self.signal_event and self.signal and string(event, "name") == self.signal:
            return mark + ">"
        return mark + " "
