"""The bundle: which one it is, and reading its files.  They may be missing, cut, corrupt, or made to hurt."""

import json
import os
import stat

import gdb

from . import text

FILE_MAX = 64 << 20
LINE_MAX = 1 << 20
INT_DIGITS_MAX = 20  # no number of a bundle has more; parsing a million digits takes long


def _bounded_int(digits):
    return int(digits) if len(digits) <= INT_DIGITS_MAX else float(digits)


_decoder = json.JSONDecoder(parse_int=_bounded_int)


def parse(data):
    """ValueError or RecursionError where it is no JSON."""
    return _decoder.decode(data.decode("utf-8", "replace").strip())


class Lines:
    """The objects of a file of JSON lines.  Those that hold none are passed over and counted."""

    def __init__(self, bundle, name, only=()):
        """only: bytes one of which a line must hold to be looked at at all: a cheap sieve."""
        self.bundle, self.name, self.only, self.unreadable = bundle, name, only, 0

    def __iter__(self):
        with self.bundle.open(self.name) as file:
            while True:
                line = file.readline(LINE_MAX)
                if not line:
                    return
                if self.only and not any(word in line for word in self.only):
                    continue
                try:
                    event = parse(line)
                except (ValueError, RecursionError):
                    event = None
                if isinstance(event, dict):
                    yield event
                elif line.strip():
                    self.unreadable += 1

    def complain(self):
        if self.unreadable:
            text.write("%s: %d lines are not JSON objects" % (self.name, self.unreadable))


class Bundle:
    def __init__(self, path):
        self.path = path
        self._documents = {}  # name → (what the file looked like, its document)

    @property
    def name(self):
        return text.printable(os.path.basename(self.path))

    def open(self, name):
        """A regular file of the bundle; gdb.GdbError where there is none."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(os.path.join(self.path, name), flags)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return open(descriptor, "rb")
            os.close(descriptor)
        except OSError as error:
            raise gdb.GdbError("cannot read %s of the bundle: %s" % (name, error.strerror))
        raise gdb.GdbError("cannot read %s of the bundle: not a regular file" % name)

    def has(self, name):
        try:
            self.open(name).close()
        except gdb.GdbError:
            return False
        return True

    def bytes(self, name):
        with self.open(name) as file:
            try:
                data = file.read(FILE_MAX + 1)
            except OSError as error:
                raise gdb.GdbError("cannot read %s of the bundle: %s" % (name, error.strerror))
        if len(data) > FILE_MAX:
            raise gdb.GdbError("%s is larger than %d MiB" % (name, FILE_MAX >> 20))
        return data

    def plain(self, name):
        """A file as the kernel printed it; "" where it is missing."""
        try:
            return self.bytes(name).decode("utf-8", "replace")
        except gdb.GdbError:
            return ""

    def document(self, name):
        # incident.json is replaced when the core has come: it is read again then.
        with self.open(name) as file:
            status = os.fstat(file.fileno())
        seen = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._documents.get(name, (None,))[0] != seen:
            data = self.bytes(name)
            try:
                self._documents[name] = (seen, parse(data))
            except (ValueError, RecursionError):
                raise gdb.GdbError("%s of the bundle is corrupt" % name)
        return self._documents[name][1]

    def lines(self, name, only=()):
        return Lines(self, name, only)

    def incident(self):
        document = self.document("incident.json")
        if not isinstance(document, dict):
            raise gdb.GdbError("incident.json of the bundle is corrupt")
        return document

    def threads(self):
        return text.items(self.document("threads.json"))

    def thread(self, tid):
        """The bundle's account of a thread; None if it has none."""
        return next((thread for thread in self.threads() if text.integer(thread, "tid") == tid), None)

    def trigger(self):
        """Monotonic nanoseconds, as the timeline's t_ns."""
        return text.number(self.incident(), "clocks", "trigger_ns") or 0


_current = None


def bundle():
    """The bundle $INCIDENT_BUNDLE names, else the one these files are stored in."""
    global _current
    path = os.environ.get("INCIDENT_BUNDLE")
    if not path:
        path = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if not os.path.exists(os.path.join(path, "incident.json")):
            raise gdb.GdbError("no bundle: INCIDENT_BUNDLE is not set ('incidentctl gdb' does)")
    if _current is None or _current.path != path:
        _current = Bundle(path)
    return _current
