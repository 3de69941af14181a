"""A timeline event as one line: the text capture/render/timeline_text.cpp makes, which `incidentctl timeline` prints."""

from .text import duration, get, integer, printable, relative_time, size, string


def arguments(event):
    """The one that is the call's descriptor as 3</etc/x>."""
    args = get(event, "args")
    fd, fd_path, shown = integer(event, "fd"), string(event, "fd_path"), []
    for argument in args if isinstance(args, list) else []:
        one = printable(argument) if isinstance(argument, str) else "?"
        if fd_path and fd is not None and one == str(fd):
            one, fd_path = "%s<%s>" % (one, fd_path), ""
        shown.append(one)
    return ", ".join(shown)


def memory(event):
    parts = []
    delta, rss = integer(event, "memory", "delta"), integer(event, "memory", "rss")
    if delta:
        parts.append("%s%s" % ("+" if delta > 0 else "", size(delta)))
    if rss is not None:
        parts.append("rss " + size(rss))
    return " {%s}" % ", ".join(parts) if parts else ""


def call(event):
    shown = "%s(%s)" % (string(event, "name"), arguments(event))
    if get(event, "in_flight") is True:
        return shown + " = ? <in flight>"
    ret = integer(event, "ret")
    if string(event, "error"):
        shown += " = -1 " + string(event, "error")
    else:
        shown += " = " + (string(event, "ret_text") or ("?" if ret is None else str(ret)))
    if integer(event, "duration_ns") is not None:
        shown += " <%s>" % duration(integer(event, "duration_ns"))
    if string(event, "path_error"):
        shown += " (path %s)" % string(event, "path_error")
    return shown + memory(event)


def signal(event):
    phase, parts = string(event, "phase"), [string(event, "code_name")]
    if string(event, "address"):
        parts.append("address " + string(event, "address"))
    if integer(event, "sender", "pid") is not None:
        parts.append("from %s[%d]" % (string(event, "sender", "comm"), integer(event, "sender", "pid")))
    outcome = string(event, "disposition" if phase == "delivered" else "result")
    if outcome:
        parts.append(outcome)
    return "--- %s %s {%s} ---" % (string(event, "name"), phase, ", ".join(parts))


def log(event):
    """What somebody has logged: "| app[123]: cannot open it"."""
    pid = integer(event, "pid")
    shown = "| %s%s: %s" % (string(event, "name"), "" if pid is None else "[%d]" % pid, string(event, "message"))
    return shown + ("…" if get(event, "cut") is True else "")


def fact(event):
    """What is remembered beyond the calls that are kept: "· openat /etc/x = -1 ENOENT (12 times within 3 h)"."""
    kind, shown, named = string(event, "fact"), string(event, "what"), string(event, "name")
    if kind == "memory":
        return "· resident memory reached " + size(int(shown) if shown.isascii() and shown.isdigit() and len(shown) < 20 else 0)
    if kind == "descriptors":
        return "· descriptor %s was reached" % shown
    shown = ("…" if get(event, "cut") is True else "") + shown
    line = "· %s %s" % (named or kind, "lasted over " + shown if kind == "slow" else shown)
    error, met = string(event, "error"), integer(event, "met")
    if error and error != shown:
        line += " = -1 " + error
    if string(event, "status_text"):
        line += " " + string(event, "status_text")
    first, last = integer(event, "first_ns"), integer(event, "t_ns")
    if met is not None and met > 1 and first is not None and last is not None:
        line += " (%d times within %s)" % (met, duration(last - first))
    return line


def other(event, kind):
    shown = "*** " + kind
    if string(event, "name") not in ("", kind):
        shown += " " + string(event, "name")
    if string(event, "path"):
        shown += " " + string(event, "path")
    if string(event, "comm"):
        shown += " (%s)" % string(event, "comm")
    if integer(event, "child") is not None:
        shown += " %d" % integer(event, "child")
    if string(event, "status_text"):
        shown += ": " + string(event, "status_text")
    return shown + memory(event) + " ***"


def what(event):
    kind = string(event, "kind")
    if kind in ("syscall", "open"):
        return call(event)
    if kind == "signal":
        return signal(event)
    if kind == "log":
        return log(event)
    if kind == "fact":
        return fact(event)
    if kind == "trigger":
        return "*** " + string(event, "name")
    return other(event, kind or "event")


def line(event, trigger):
    """trigger: the monotonic time that counts as 0."""
    when = integer(event, "t_ns")
    return "%s  %s" % (relative_time(0 if when is None else when - trigger), what(event))
