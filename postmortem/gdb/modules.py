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
        if os.path.realpath(module["file"]) in loaded:
            continue
        try:
            with open(module["file"], "rb") as file:
                header = read_header(file)
                bias = bias_of(file, header, module)
                absent = list(absent_from(file, header, bias)) if module["copy"] else []
            gdb.execute(
                "add-symbol-file %s -o %d" % (quoted(module["file"]), bias), from_tty=False, to_string=True
            )
        except (OSError, ValueError, gdb.error, UnicodeDecodeError) as error:
            write("incident: no names of %s: %s" % (printable(module["path"]), printable(str(error))))
            continue
        hidden += absent
    hide(hidden)


def read_header(file):
    """(e_phoff, e_shoff, e_phnum, e_shnum) of a 64-bit little-endian file."""
    head = file.read(64)
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it is no 64-bit ELF file")
    segments, sections = struct.unpack_from("<QQ", head, 32)
    (segment_count,) = struct.unpack_from("<H", head, 56)
    (section_count,) = struct.unpack_from("<H", head, 60)
    return segments, sections, min(segment_count, HEADERS_MAX), min(section_count, HEADERS_MAX)


def table(file, at, count, form):
    """The entries of a table of headers that are there."""
    file.seek(min(at, 1 << 62))
    data = file.read(struct.calcsize(form) * count)
    return struct.iter_unpack(form, data[: len(data) // struct.calcsize(form) * struct.calcsize(form)])


def bias_of(file, header, module):
    """What the loader has added to the addresses in the file; add-symbol-file knows it as an offset."""
    segments, _, count, _ = header
    for kind, _, offset, address, _, size, _, _ in table(file, segments, count, "<IIQQQQQQ"):
        if kind == PT_LOAD and offset & ~0xFFF <= module["offset"] < offset + max(size, 1):
            return (module["start"] - (address - offset + module["offset"])) % (1 << 64)
    raise ValueError("it has no segment that was loaded there")


def absent_from(file, header, bias):
    """(start, end) of each part that a copy lacks, of what is only in the file: code and constants."""
    _, sections, _, count = header
    for _, kind, flags, address, _, size, _, _, _, _ in table(file, sections, count, "<IIQQQQIIQQ"):
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
