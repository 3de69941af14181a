"""Gives gdb the files that it does not find itself: a container's, and the copies that were kept of files now gone.

`incidentctl gdb` has found them and writes down where each was loaded.
"""

import json
import os
import struct

import gdb

from .text import printable, quoted, write

PT_LOAD = 1
SHT_NOBITS = 8
SHF_WRITE, SHF_ALLOC = 1, 2
HEADERS_MAX = 4096  # of either kind; no linker makes as many


def add(path):
    """path: the list; "" if there is none."""
    if not path:
        return
    with open(path, encoding="utf-8") as file:
        modules = json.load(file)
    loaded = {os.path.realpath(objfile.filename) for objfile in gdb.objfiles() if objfile.filename}
    hidden = []
    for module in modules:
        try:
            # gdb ends a command at a line break, and takes what follows for the next one.
            if not module["file"].isprintable():
                raise ValueError("its file has a name with control characters")
            if os.path.realpath(module["file"]) in loaded:
                continue
            with open(module["file"], "rb") as file:
                headers = Headers(file)
            bias = bias_of(headers, module)
            absent = list(absent_from(headers, bias)) if module["copy"] else []
            gdb.execute(
                "add-symbol-file %s -o %d" % (quoted(module["file"]), bias), from_tty=False, to_string=True
            )
        except (OSError, ValueError, gdb.error, UnicodeDecodeError) as error:
            write("incident: no names of %s: %s" % (printable(module["path"]), printable(str(error))))
            continue
        hidden += absent
    hide(hidden)


class Layout:
    """How the headers of a class of ELF files are laid out (elf(5)); fields are picked by their places."""

    def __init__(self, offsets, counts, segment, section):
        self.offsets, self.counts, self.segment, self.section = offsets, counts, segment, section


# e_phoff and e_shoff; where e_phnum and e_shnum are; a program header with the places of type, offset, address and
# size in the file; a section header with those of type, flags, address and size.
LAYOUTS = {
    b"\x7fELF\x01\x01": Layout(("<II", 28), (44, 48), ("<8I", 0, 1, 2, 4), ("<10I", 1, 2, 3, 5)),
    b"\x7fELF\x02\x01": Layout(("<QQ", 32), (56, 60), ("<IIQQQQQQ", 0, 2, 3, 5), ("<IIQQQQIIQQ", 1, 2, 3, 5)),
}


class Headers:
    """Of a file that anybody may have made."""

    def __init__(self, file):
        head = file.read(64)
        layout = LAYOUTS.get(head[:6])
        if not layout or len(head) < 64:
            raise ValueError("it is no ELF file of this machine")
        form, at = layout.offsets
        segments, sections = struct.unpack_from(form, head, at)
        counts = [struct.unpack_from("<H", head, at)[0] for at in layout.counts]
        self.segments = table(file, segments, counts[0], *layout.segment)
        self.sections = table(file, sections, counts[1], *layout.section)


def table(file, at, count, form, *places):
    """Of the headers that are there, the fields at these places."""
    size = struct.calcsize(form)
    file.seek(min(at, 1 << 62))
    data = file.read(size * min(count, HEADERS_MAX))
    entries = struct.iter_unpack(form, data[: len(data) // size * size])
    return [tuple(entry[place] for place in places) for entry in entries]


def bias_of(headers, module):
    """What the loader has added to the addresses in the file; add-symbol-file knows it as an offset."""
    for kind, offset, address, size in headers.segments:
        if kind == PT_LOAD and offset & ~0xFFF <= module["offset"] < offset + max(size, 1):
            return (module["start"] - (address - offset + module["offset"])) % (1 << 64)
    raise ValueError("it has no segment that was loaded there")


def absent_from(headers, bias):
    """(start, end) of each part that a copy lacks, of what is only in the file: code and constants."""
    for kind, flags, address, size in headers.sections:
        if kind == SHT_NOBITS and flags & SHF_ALLOC and not flags & SHF_WRITE and size:
            start = (address + bias) % (1 << 64)
            yield start, min(start + size, (1 << 64) - 1)


def hide(ranges):
    """gdb would read zeros where a copy has nothing.  Memory that can only be written it does not read at all."""
    if not ranges:
        return
    gdb.execute("set mem inaccessible-by-default off", to_string=True)
    for start, end in ranges:
        try:
            gdb.execute("mem %#x %#x wo" % (start, end), from_tty=False, to_string=True)
        except gdb.error as error:  # it overlaps with another
            write("incident: %#x-%#x: %s" % (start, end, printable(str(error))))
