"""The mappings of the process, from the bundle's process/maps; where that is missing, what gdb knows of files."""

import bisect
import re

import gdb

from .text import printable, size

MAPPINGS_MAX = 1 << 20
LINE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-][w-][x-][ps]) ([0-9a-f]+) [0-9a-f]+:[0-9a-f]+ \d+ *(.*)")
# `info proc mappings`: start, end, size, offset, permissions (not all versions), file.
GDB_LINE = re.compile(r"\s*0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+(?:[r-][w-][x-][ps]\s+)?(/.*)")


class Mapping:
    def __init__(self, start, end, offset, path, permissions=""):
        self.start, self.end, self.offset, self.path, self.permissions = start, end, offset, path, permissions

    @property
    def is_file(self):
        return self.path.startswith("/")

    @property
    def is_anonymous(self):
        """Memory of the program's own making, not a file's and none the kernel has a name for."""
        return not self.path or self.path.startswith("[anon")

    @property
    def no_access(self):
        return self.permissions.startswith("---")

    def what(self):
        if self.no_access and self.is_anonymous:
            return "memory without access (reserved, or a guard)"
        return printable(self.path) or "anonymous memory"

    def __str__(self):
        return "%s %s0x%x-0x%x, %s" % (
            self.what(),
            self.permissions + " " if self.permissions else "",
            self.start,
            self.end,
            size(self.end - self.start),
        )


class Maps:
    def __init__(self, mappings, complete):
        """complete: what is not in it was not mapped."""
        self.all = sorted(mappings, key=lambda mapping: mapping.start)
        self.complete = complete
        self._starts = [mapping.start for mapping in self.all]

    def find(self, address):
        index = bisect.bisect_right(self._starts, address) - 1
        return self.all[index] if index >= 0 and address < self.all[index].end else None

    def below(self, address):
        """The nearest that ends at or below address."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self.all[index] if index >= 0 and self.all[index].end <= address else None

    def above(self, address):
        """The nearest that starts above address."""
        index = bisect.bisect_right(self._starts, address)
        return self.all[index] if index < len(self.all) else None


def of_bundle(bundle):
    mappings = []
    for line in bundle.plain("process/maps").split("\n"):
        match = LINE.fullmatch(line)
        if match and len(mappings) < MAPPINGS_MAX:
            start, end, permissions, offset, path = match.groups()
            if int(start, 16) < int(end, 16):
                mappings.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), path, permissions))
    return Maps(mappings, True) if mappings else of_gdb()


def of_gdb():
    """A core's NT_FILE note: the files only."""
    try:
        lines = gdb.execute("info proc mappings", to_string=True).split("\n")
    except gdb.error:
        return Maps([], False)
    mappings = []
    for match in filter(None, map(GDB_LINE.fullmatch, lines)):
        start, end, offset, path = match.groups()
        mappings.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), path))
    return Maps(mappings, False)
