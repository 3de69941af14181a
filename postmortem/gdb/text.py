"""Text for people: escaping, numbers with units, and gdb's output."""

import json
import math
import os
import re
import unicodedata

import gdb

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
ADDRESS_MASK = (1 << 64) - 1

# As capture/render/timeline_text.cpp has them.
TIME_UNITS = ((1, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (60e9, "min"), (3600e9, "h"), (86400e9, "d"))
SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
# Combining and "other" characters that a terminal acts upon or does not show.
UNSHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def printable(value):
    """value as one line that no terminal acts upon."""
    text = value if isinstance(value, str) else json.dumps(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escaped, text))


def quoted(path):
    """A file's name for commands of gdb that take their arguments apart."""
    return re.sub(r"([^A-Za-z0-9_./-])", r"\\\1", path)


def _escaped(char):
    if char == "\n":
        return "\\n"
    if char == "\t":
        return "\\t"
    if unicodedata.category(char) not in UNSHOWN:
        return char
    code = ord(char)
    return "\\x%02x" % code if code < 256 else "\\u%04x" % code if code < 0x10000 else "\\U%08x" % code


def write(line=""):
    """One line.  gdb's pager stops it where the screen is full: `q` there, or ^C, raises KeyboardInterrupt, which
    must reach gdb."""
    gdb.write(line + "\n")


def coloured():
    """Whether gdb itself would write colours now."""
    return bool(gdb.parameter("style enabled")) and os.isatty(1) and os.environ.get("TERM") not in (None, "dumb")


def tone(code, text):
    """text, printable already, in an SGR code: "1" bold, "2" dim, "31" red, "33" yellow."""
    return "\x1b[%sm%s\x1b[0m" % (code, text) if text and coloured() else text


def field(label, value, width=10):
    write("%s  %s" % (tone("2", label.rjust(width)), value))


def get(document, *path):
    """The member at path; None where it is missing or something is of another type."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def text(document, *path):
    value = get(document, *path)
    return "" if value is None else printable(value)


def string(document, *path):
    """The member at path if it is a string, printable; else ""."""
    value = get(document, *path)
    return printable(value) if isinstance(value, str) else ""


def integer(document, *path):
    """JSON integers only, as the timeline has its numbers."""
    value = get(document, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(document, *path):
    """Integers, also written as "0x1f" or "31"; None otherwise."""
    value = get(document, *path)
    if isinstance(value, str):
        try:
            return int(value, 0) if len(value) <= 24 else None
        except ValueError:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def items(document, *path):
    value = get(document, *path) if path else document
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def scaled(ns, digits, sign):
    """digits significant ones, in the largest unit that leaves something before the point."""
    unit, magnitude = 0, abs(ns)
    almost = 1 - 0.5 * 10**-digits  # 999.6 µs is 1 ms when rounded
    while unit + 1 < len(TIME_UNITS) and magnitude >= TIME_UNITS[unit + 1][0] * almost:
        unit += 1
    value = ns / TIME_UNITS[unit][0]
    before = int(math.log10(abs(value))) + 1 if abs(value) >= 1 else 1
    after = max(0, digits - before) if unit else 0
    return "%s %s" % (format(value, "%s.%df" % ("+" if sign else "", after)), TIME_UNITS[unit][1])


def relative_time(ns):
    """ "-78.09 µs", 12 columns wide, as `incidentctl timeline` prints it."""
    return scaled(min(max(ns, INT64_MIN), INT64_MAX), 4, True).rjust(12)


def duration(ns):
    return scaled(min(max(ns, INT64_MIN), INT64_MAX), 3, False)


def size(count):
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit + 1 < len(SIZE_UNITS):
        value, unit = value / 1024, unit + 1
    return "%.*f %s" % (1 if unit and abs(value) < 99.95 else 0, value, SIZE_UNITS[unit])


def distance(count):
    """A distance in bytes that can be checked with a calculator: exact, in hexadecimal too where that helps."""
    if count < 10:
        return "%d byte%s" % (count, "" if count == 1 else "s")
    return "%d bytes (0x%x)" % (count, count) if count < 1 << 20 else "0x%x bytes (%s)" % (count, size(count))
