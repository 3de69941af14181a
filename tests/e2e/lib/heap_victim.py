"""Driving a program `heap…`, and seeing from outside where probes stand in a process."""

import json
import os
import re
import subprocess
from contextlib import contextmanager
from functools import cache

from lib.programs import victim
from lib.victims import finish, start
from lib.wait import until

FAMILY = ("malloc", "calloc", "realloc", "free", "posix_memalign")


def rule(program, level, more="", comm=""):
    """A crash rule about one program, with its heap.  comm: of those that have this name alone."""
    match = f'exe = ["{os.path.realpath(program)}"]' + (f', comm = ["{comm}"]' if comm else "")
    return (f'[[rule]]\nname = "heap"\non = "signal"\nmatch = {{ {match} }}\n'
            f'context = {{ allocations = "{level}" }}\n{more}')


def config(memory="256MiB", **keys):
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in keys.items()]
    return "\n".join(["[heap]", f'memory = "{memory}"', *lines, ""])


@cache
def symbols(path, dynamic=False):
    """{name: (address, size)} of a file's functions."""
    options = ["-D"] if dynamic else []
    listed = subprocess.run(["nm", "-S", "--defined-only", *options, path], capture_output=True, text=True, check=False)
    found = {}
    for line in listed.stdout.splitlines():
        if match := re.match(r"([0-9a-f]+) (?:([0-9a-f]+) )?[TtWwiV] ([^@]+)", line):
            found.setdefault(match[3], (int(match[1], 16), int(match[2] or "0", 16)))
    return found


@cache
def segments(path):
    """(file offset, address, bytes) of what is loaded of it."""
    listed = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    return [tuple(int(word, 16) for word in match)
            for match in re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", listed)]


def offset_of(path, address):
    return next(address - virtual + offset for offset, virtual, size in segments(path) if virtual <= address < virtual + size)


def address_of(path, offset):
    return next((offset - start + virtual for start, virtual, size in segments(path) if start <= offset < start + size), None)


class Code:
    """The code mapped into a living process."""

    def __init__(self, pid):
        self.pid = pid
        self.mapped = []  # start, end, file offset, path
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                words = line.split(None, 5)
                if "x" in words[1] and len(words) > 5 and words[5].startswith("/"):
                    begin, end = (int(word, 16) for word in words[0].split("-"))
                    self.mapped.append((begin, end, int(words[2], 16), words[5].strip()))

    def name(self, address):
        """Of the function that a return address is in; None where it is in no file."""
        for begin, end, offset, path in self.mapped:
            if begin <= address < end:
                place = address_of(path, address - begin + offset)
                for dynamic in (False, True):
                    for name, (at, size) in symbols(path, dynamic).items():
                        if at < place <= at + size:
                            return name
                return f"{os.path.basename(path)}+{place:#x}"
        return None

    def path(self, stack):
        """Of the file that malloc was called from."""
        caller = int.from_bytes(stack.slice[:8], "little")
        return next((path for begin, end, _, path in self.mapped if begin <= caller < end), "")

    def sites(self, stack):
        """Functions that may be on a call stack, innermost first: what its words point into."""
        words = [int.from_bytes(stack.slice[i : i + 8], "little") for i in range(0, stack.length - 7, 8)]
        return [name for name in map(self.name, words) if name]

    def caller(self, stack):
        """The function that called malloc."""
        return self.name(int.from_bytes(stack.slice[:8], "little"))

    def bytes_at(self, path, name, dynamic):
        """How a function begins: (as mapped, as in the file).  A probe may stand a little behind its entry."""
        if name not in symbols(path, dynamic):
            return None
        address, size = symbols(path, dynamic)[name]
        offset, length = offset_of(path, address), min(size or 1, 64)
        for begin, end, start_offset, mapped in self.mapped:
            if mapped == path and start_offset <= offset < start_offset + end - begin:
                with open(f"/proc/{self.pid}/mem", "rb") as memory, open(path, "rb") as file:
                    memory.seek(begin + offset - start_offset)
                    file.seek(offset)
                    return memory.read(length), file.read(length)
        return None

    def probed(self, names=FAMILY):
        """Which functions of an allocator have a breakpoint, of those that are there: {path: {name: bool}}."""
        found = {}
        for path in sorted({mapped[3] for mapped in self.mapped}):
            for name in names:
                for dynamic in (False, True):
                    if both := self.bytes_at(path, name, dynamic):
                        found.setdefault(path, {})[name] = both[0] != both[1]
        return found


def is_probed(pid, library=""):
    """Whether all of the family are, in some file (in the one whose path has `library`)."""
    return any(all(names.values()) for path, names in Code(pid).probed().items() if library in path)


def is_recorded(watcher, pid):
    """A fork inherits the bytes of its parent's probes, not the recording."""
    said = watcher.ctl.run("--json", "status")
    if said.returncode != 0:
        return False  # busy: on a throttled machine its answer may come too late for incidentctl
    return any(one["pid"] == pid and one["since_ns"] for one in json.loads(said.stdout)["heaps"]["processes"])


def is_untouched(pid):
    return not any(any(names.values()) for names in Code(pid).probed().values())


def until_recorded(watcher, pid):
    """The heap of a process that waits."""
    until(lambda: is_recorded(watcher, pid), f"the heap of {pid} to be recorded", watcher.tail)


class HeapVictim:
    """`library`: part of the path of the allocator that is probed, where it is not the first with a whole family."""

    def __init__(self, *arguments, program="heap", library="", env=None, **options):
        environment = {**os.environ, **(env or {})}
        self.process = start(victim(program), *map(str, arguments), stdin=subprocess.PIPE, env=environment, **options)
        self.pid = self.process.pid
        self.library = library
        self.said = []
        self.code = None

    def until(self, line):
        """What it says before that line."""
        for said in self.process.stdout:
            said = said.decode().rstrip("\n")
            if said == line:
                return self
            self.said.append(said.split())
        raise AssertionError(f"it ended with {self.process.wait()} before {line!r}: {self.said}")

    def watched(self, watcher):
        """Once its probes are all there: seen in its memory, and said by the daemon."""
        until_recorded(watcher, self.pid)
        until(lambda: is_probed(self.pid, self.library), f"probes in {self.pid}", watcher.tail)
        return self

    def go(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self

    def value(self, key, index=1):
        return int(next(words[index] for words in self.said if words[0] == key), 0)

    def snapshot(self):
        self.code = Code(self.pid)

    def die(self):
        """Its last line of input, and its end."""
        self.snapshot()
        self.go()
        return finish(self.process)


@contextmanager
def heap_victim(*arguments, wait_for="ready", **options):
    one = HeapVictim(*arguments, **options)
    try:
        yield one.until(wait_for) if wait_for else one
    finally:
        one.process.kill()
        one.process.wait()
        one.process.stdin.close()
        one.process.stdout.close()
