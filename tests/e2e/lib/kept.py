"""Copies that the daemon keeps of mapped files (state/modules), and programs of which there is none yet."""

import os
import shutil
import struct
from contextlib import suppress
from itertools import count

from lib.reference import build_id
from lib.wait import until

FLAGS_AT = {1: 36, 2: 48}  # e_flags by the file's class: of Elf32_Ehdr and Elf64_Ehdr; it means nothing on x86
numbers = count(os.getpid() << 12)


def own(program, directory, name="gone-program"):
    """A copy that is like no other: what is kept of it is made for it alone, whatever was kept before."""
    path = directory / name
    shutil.copy(program, path)
    with open(path, "r+b") as file:
        file.seek(FLAGS_AT[file.read(5)[4]])
        file.write(struct.pack("<I", next(numbers) & 0xFFFFFFFF))
    return path


def first_part(path):
    """Of the name of its copy: its build-id."""
    try:
        return build_id(str(path)) + "."
    except TypeError:  # it has none
        return "none."


def copies(watcher):
    with suppress(FileNotFoundError):
        return [name for name in os.listdir(watcher.state / "modules") if not name.endswith(".part")]
    return []


def made_after(watcher, path):
    """A copy made since the file is there, with its build-id."""
    first, since = first_part(path), os.stat(path).st_mtime_ns
    modules = watcher.state / "modules"
    with suppress(FileNotFoundError):  # one that has just gone
        return any(name.startswith(first) and os.stat(modules / name).st_mtime_ns >= since for name in copies(watcher))
    return False


def until_kept(watcher, path):
    until(lambda: made_after(watcher, path), f"a copy of {path}", watcher.tail)
