"""What sourcing incident.py does: defines the commands, selects the thread it happened in, says so."""

import gdb

from . import commands, debuggee, explain, memory, opener, returns, timeline, values
from .bundle import bundle
from .text import number, text, tone, write

COMMANDS = (
    commands.Incident,
    commands.Summary,
    timeline.Timeline,
    commands.Threads,
    explain.Explain,
    commands.Files,
    commands.Fds,
    memory.Memory,
    commands.Signals,
    commands.Quality,
    values.Values,
    values.Value,
)
# Commands named where gdb shows the incident.
SEE = "incident summary | timeline | threads | explain | files | fds | memory | signals | quality"


def start(opening):
    """opening: the program and core are to be loaded, too."""
    for command in COMMANDS:
        command()
    try:
        incident = bundle().incident()
        opener.load_given(number(incident, "process", "ns_pid") not in (None, number(incident, "process", "pid")))
        if opening:
            opener.load(bundle())
        returns.install(bundle())
    except gdb.GdbError as error:
        write("incident: " + str(error))
        return
    debuggee.learn_tids(incident, thread_list())
    died = debuggee.threads().get(number(incident, "thread", "tid"))
    if died:
        died.switch()
    write("Incident  " + tone("1", bundle().name))
    for label, value in (
        ("what", text(incident, "summary")),
        ("likely", text(incident, "verdict", "sentence")),
        ("when", "%s, rule %s" % (text(incident, "time"), text(incident, "rule"))),
        ("core", commands.opened_core() or ("as you loaded it" if debuggee.present() else "none")),
        ("thread", thread(died)),
        ("see", SEE),
    ):
        if value:
            write("  %s  %s" % (tone("2", label.ljust(6)), value))


def thread(died):
    if died:
        return "%d, tid %d, selected" % (died.num, debuggee.tid(died))
    if not debuggee.present():
        return "none: there is no core"
    return "the one it happened in is not in the core"


def thread_list():
    try:
        return bundle().threads()
    except gdb.GdbError:
        return []  # the incident is worth showing all the same
