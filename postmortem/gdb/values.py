"""$_incident("path"): the incident's values in gdb's expressions; `incident values` lists them."""

import re

import gdb

from . import debuggee
from .bundle import bundle
from .command import Subcommand
from .text import get, integer, printable, tone, write

# incident.json's keys, and over them those of the thread that is selected in gdb.
#   thread        the bundle's account of the selected thread (threads.json)
#   last_syscall  its last system call
#   threads       all of threads.json
#   happened_in   incident.json's own "thread": the one it happened in
STEP = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_ /:-]*)|\[(\d{1,9})\]")
ENTRIES_SHOWN = 8  # of a list, unless it is asked for

# Numbers that the bundle writes as text, in hexadecimal: addresses and registers.
NUMBER_KEYS = ("address", "ip", "offset", "ret_text")
NUMBER_PARENTS = ("registers", "args", "layout")


def view():
    incident = bundle()
    whole = dict(incident.incident())
    try:
        whole["threads"] = incident.threads()
    except gdb.GdbError:
        whole["threads"] = []
    whole["happened_in"] = whole.get("thread")
    tid = debuggee.selected_tid()
    if tid is None:  # no core: the thread it happened in
        tid = integer(whole, "happened_in", "tid")
    thread = next((one for one in whole["threads"] if integer(one, "tid") == tid), None)
    whole["thread"], whole["last_syscall"] = thread, get(thread, "syscall")
    return whole


def steps(path):
    """ "threads[2].syscall" → ["threads", 2, "syscall"]; None where it is no path."""
    found, at = [], 0
    while at < len(path):
        match = STEP.match(path, at)
        if not match or (at == 0) == path.startswith(".", at):
            if not match or at == 0 or match.group(2) is None:
                return None
        found.append(match.group(1) if match.group(2) is None else int(match.group(2)))
        at = match.end()
    return found or None


def child(value, step):
    """(there, value) of a member."""
    if isinstance(value, dict) and isinstance(step, str):
        return step in value, value.get(step)
    if isinstance(value, list) and isinstance(step, int):
        return step < len(value), value[step] if step < len(value) else None
    return False, None


def members(value):
    """What there is, in words."""
    if isinstance(value, dict):
        return "has " + (", ".join(printable(key) for key in value) or "nothing")
    if isinstance(value, list):
        return "has [0] to [%d]" % (len(value) - 1) if value else "is empty"
    return "is a value" if value is not None else "is null"


def look_up(path):
    parts = steps(path)
    if parts is None:
        raise gdb.GdbError('"%s" is no path such as "signal.code_name" or "threads[0].tid"' % printable(path))
    value, done = view(), ""
    for step in parts:
        there, inner = child(value, step)
        if not there:
            whole = "the incident" if not done else '"%s"' % printable(done)
            raise gdb.GdbError('no "%s": %s %s' % (printable(path), whole, members(value)))
        value, done = inner, join(done, step)
    return value, parts


def join(path, step):
    return "%s[%d]" % (path, step) if isinstance(step, int) else "%s.%s" % (path, step) if path else step


def is_number_text(parts):
    named = [part for part in parts if isinstance(part, str)]
    parent = named[-1] if isinstance(parts[-1], int) else named[-2] if len(named) > 1 else ""
    return parent in NUMBER_PARENTS or named[-1] in NUMBER_KEYS


def converted(value, parts):
    """As Python has it and gdb takes it: whole numbers as such, also those written as text."""
    if isinstance(value, str):
        if is_number_text(parts) and re.fullmatch(r"0x[0-9a-f]{1,16}|-?\d{1,18}", value):
            return int(value, 0) if value.startswith("0x") else int(value)
        return printable(value)
    return value


class Value(gdb.Function):
    """$_incident("PATH"): a value of the incident bundle.

PATH names keys as incident.json has them: "signal.code_name", "process.unit", "quality.lost"; and
  "last_syscall.name"           of the selected thread: also nr, ret, error, args[0], duration_ns
  "thread.comm"                 the bundle's account of the selected thread
  "threads[0].registers.rip"    any thread's
  "happened_in.tid"             the thread it happened in
Whole numbers, addresses and registers are integers; other texts strings, with what would act upon a terminal
escaped; what is null is void (see $_isvoid).  `incident values` lists all paths."""

    def __init__(self):
        super().__init__("_incident")

    def invoke(self, path):
        try:
            asked = path.string()
        except (gdb.error, UnicodeError):
            raise gdb.GdbError('$_incident takes a text: $_incident("signal.name")')
        value, parts = look_up(asked)
        if isinstance(value, (dict, list)):
            raise gdb.GdbError('"%s" is no single value: it %s' % (printable(asked), members(value)))
        if value is None:
            return gdb.parse_and_eval("(void)0")
        value = converted(value, parts)
        try:
            return gdb.Value(value)
        except UnicodeEncodeError:  # gdb's character set, in the C locale, has ASCII alone
            return gdb.Value(value.encode("ascii", "backslashreplace").decode())


class Values(Subcommand):
    """The values that $_incident("PATH") can tell, with their paths.

Usage: incident values [PREFIX]
All of those below PREFIX: "signal", "threads[1]".  Of long lists only the beginning, unless PREFIX names them."""

    name = "values"

    def candidates(self, before, typed):
        if before:
            return []
        at = max(typed.rfind("."), typed.rfind("["))
        base = typed[:at] if at > 0 else ""
        value = view() if not base else look_up(base)[0]
        steps_there = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
        # A key that is no word cannot be typed, and may hold anything.
        return [join(base, step) for step in steps_there if isinstance(step, int) or steps(step) == [step]]

    def run(self, prefix):
        value, parts = look_up(prefix) if prefix else (view(), [])
        self.show_below(prefix, value, parts, True)

    def show_below(self, path, value, parts, asked):
        if isinstance(value, dict):
            for key, inner in value.items():
                if not path and key == "threads":  # long, and mostly not what is looked for
                    write('%s  %d, see "incident values threads"' % (key, len(inner)))
                else:
                    self.show_below(join(path, key), inner, parts + [key], False)
        elif isinstance(value, list):
            shown = value if asked else value[:ENTRIES_SHOWN]
            for index, inner in enumerate(shown):
                self.show_below(join(path, index), inner, parts + [index], False)
            if len(shown) < len(value):
                more = len(value) - len(shown)
                write('%s  and %d more, see "incident values %s"' % (printable(path), more, printable(path)))
        else:
            shown = "null" if value is None else converted(value, parts)
            if isinstance(value, str) and isinstance(shown, int):
                shown = printable(value)  # addresses are easier to read in hexadecimal
            if self.is_string(value, parts):
                shown = '"%s"' % shown.replace('"', '\\"')
            write("%s = %s" % (tone("1", printable(path)), printable(shown)))

    @staticmethod
    def is_string(value, parts):
        return isinstance(value, str) and isinstance(converted(value, parts), str)
