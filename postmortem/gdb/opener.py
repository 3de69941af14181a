"""Loads the program and the core of a bundle, for open.gdb: `incidentctl gdb` has done so already."""

import os
import re
import stat

import gdb

from . import debuggee
from .commands import core_text
from .text import get, printable, string, write

DELETED = " (deleted)"  # as the kernel marks /proc/PID/exe
PLAIN_PATH = re.compile(r"/[A-Za-z0-9_.,:=@%+/-]*")  # needs no quoting in any version of gdb
ELF_MAGIC = b"\x7fELF"


def load(bundle):
    """What is loaded already stays: gdb's command line may have named it."""
    if debuggee.present():
        return
    incident = bundle.incident()
    if not gdb.current_progspace().filename:
        executable(incident)
    # (file, how it was joined, why this one)
    for file, join, why in cores(bundle, incident):
        try:
            gdb_file("core-file", file)
        except gdb.error as error:
            write("incident: cannot open %s: %s" % (printable(file), printable(str(error))))
            continue
        os.environ["INCIDENT_CORE"], os.environ["INCIDENT_CORE_JOIN"] = file, join
        if why:
            write("incident: " + why)
        return
    write("incident: no core to open: " + no_core(bundle, incident))


def gdb_file(command, path):
    """Before gdb 16 core-file takes the rest of the line as it is, from then on quoted; file always has been quoted."""
    if PLAIN_PATH.fullmatch(path):
        gdb.execute("%s %s" % (command, path))
        return
    if "\n" in path:
        raise gdb.error("its name has a line break")
    quoted = re.sub(r"([^A-Za-z0-9_./-])", r"\\\1", path)
    if command == "file":
        gdb.execute("file " + quoted)
        return
    try:
        gdb.execute("%s %s" % (command, path))
    except gdb.error:
        gdb.execute("%s %s" % (command, quoted))


def is_regular(path):
    """Something else, a pipe, might make gdb wait for ever."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def executable(incident):
    """The program that died, if it is still the same; else gdb looks for it by the core's build-id."""
    path, expected = get(incident, "process", "exe"), string(incident, "process", "build_id")
    if not isinstance(path, str) or not path.startswith("/"):
        return write("incident: the bundle does not say which program it was; gdb looks for it by its build-id")
    was_deleted = path.endswith(DELETED)
    path = path[: -len(DELETED)] if was_deleted else path
    shown = printable(path)
    if not is_regular(path):
        return write("incident: %s is not here; gdb looks for it by its build-id" % shown)
    try:
        gdb_file("file", path)
    except gdb.error as error:
        return write("incident: cannot load %s: %s" % (shown, printable(str(error))))
    found = loaded_build_id()
    if expected and found != expected:
        gdb.execute("file")
        write(
            "incident: %s has changed (build-id %s, it was %s): not loaded; gdb looks for it by its build-id"
            % (shown, found or "none", expected)
        )
    elif not expected and was_deleted:
        write("incident: %s had been deleted or replaced when it died: names and lines may be wrong" % shown)
    elif not expected and found:  # a container's, for which another stands here
        write(
            "incident: %s has a build-id, and of the program that died none is known: names and lines may be wrong"
            % shown
        )


def loaded_build_id():
    main = gdb.current_progspace().filename
    for objfile in gdb.current_progspace().objfiles():
        if objfile.filename == main or objfile.username == main:
            return objfile.build_id or ""
    return ""


def is_elf(path):
    """gdb does not decompress cores."""
    try:
        with open(path, "rb") as file:
            return file.read(len(ELF_MAGIC)) == ELF_MAGIC
    except OSError:
        return False


def trusted(status):
    """Root's or the caller's, and nobody else can write it."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def keeps_its_names(status):
    """Nobody else can put another entry in the place of one that is root's or the caller's."""
    return trusted(status) or (status.st_uid in (0, os.geteuid()) and bool(status.st_mode & stat.S_ISVTX))


def full_core(incident, tell=False):
    """The joined core's file, if it is (still) on this machine; else None.

    What a bundle names may be anything.  systemd-coredump's files are root's, in a directory that only root can write,
    as are those above it: they are no links, have no other names, and stay what they were when they were looked at.
    """
    file = get(incident, "core", "file")
    joined = string(incident, "core", "join") in ("exact", "window")
    if not joined or not isinstance(file, str) or not file.startswith("/"):
        return None
    try:
        directory = os.path.realpath(os.path.dirname(file))
        file = os.path.join(directory, os.path.basename(file))
        status, holder, above = os.lstat(file), os.stat(directory), []
        while directory != "/":
            directory = os.path.dirname(directory)
            above.append(os.stat(directory))
    except (OSError, ValueError):
        return None
    mine = trusted(status) and trusted(holder) and all(map(keeps_its_names, above))
    if not (stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and mine):
        if tell:
            write("incident: %s is not opened: others than root and you may have made it" % printable(file))
        return None
    return file if os.access(file, os.R_OK) else None


def cores(bundle, incident):
    full, mini = full_core(incident, tell=True), os.path.join(bundle.path, "mini.core")
    has_mini = is_regular(mini) and not os.path.islink(mini)
    truncated = get(incident, "core", "truncated") is True
    if full and is_elf(full):
        why = ""
        if truncated:
            why = "the core is truncated: some memory is missing"
            why += "; the bundle's own has its registers and stacks: core-file %s" % printable(mini) if has_mini else ""
        yield full, string(incident, "core", "join"), why
    if has_mini:
        why = "using the bundle's mini.core (registers, stacks, what registers point at): "
        if full and is_elf(full):
            why += "the full core cannot be opened"
        elif full:
            why += "the full core is compressed; 'incidentctl gdb %s' opens it" % bundle.name
        else:
            why += core_text(incident) if not string(incident, "core", "file") else "the full core is not here"
        yield mini, "mini", why


def no_core(bundle, incident):
    full = full_core(incident)
    if full:
        return "%s is compressed, and the bundle has no mini.core; 'incidentctl gdb %s' opens it" % (
            printable(full),
            bundle.name,
        )
    return "neither the full core (%s) nor a mini.core" % core_text(incident)
