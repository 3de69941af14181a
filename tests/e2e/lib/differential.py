"""Crashes drawn by chance of compilers, optimizations, ways to link, shapes and places, and what was planted in each."""

import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lib.compiled import compiled

C_OPTIMIZED = {"O0": ("-O0",), "O2": ("-O2",), "O3": ("-O3",), "O2 LTO": ("-O2", "-flto")}
RUST_OPTIMIZED = {"O0": (), "O2": ("-O",), "O3": ("-Copt-level=3",), "O2 LTO": ("-O", "-Clto")}
GO_OPTIMIZED = {"as built": (), "O0": ("-gcflags=all=-N -l",)}
LINKED = {
    "PIE": (),
    "not PIE": ("-no-pie", "-fno-pie"),
    "static": ("-static",),
    "32-bit": ("-m32", "-msse2"),
    "32-bit static": ("-m32", "-msse2", "-static"),
}
PLACES = ("in place", "replaced", "deleted", "container")

# Its type is not known where only a copy of the library that has its name is left.
UNCAUGHT = r"uncaught C\+\+ exception($| of type {})"
NULL = r"null dereference: {}"
# What each shape is: what a verdict on it may begin with.  Of what it says otherwise it must be silent.
C_SHAPES = {
    "read-null": NULL.format(r"read_null\(\) reads 8 bytes at a null pointer"),
    "write-null": NULL.format(r"write_null\(\) writes 8 bytes at a null pointer"),
    "read-member": NULL.format(r"read_member\(\) reads 8 bytes at offset 0x10 of a null pointer"),
    "call-null": r"jump to null",
    "call-wild": r"(jump|wild jump|bad jump|bad address).*0x123456789000",
    "wild": r"bad address: wild\(\) reads 8 bytes at 0x123456789000, where nothing is mapped",
    "noncanonical": r"bad address: noncanonical\(\) .*no possible address",
    "after-munmap": r"(use after munmap|bad address): after_munmap\(\) reads 1 byte at 0x[0-9a-f]+, where nothing is mapped any more",
    "write-constant": r"write to read-only memory: write_constant\(\)",
    "run-data": r"jump (in)?to .*not executable",
    "recurse": r"stack overflow",
    "divide": r"integer division by zero in divide\(\)",
    "divide-min": r"integer division whose result does not fit, in divide_min\(\)",
    "trap": r"illegal instruction: trap\(\) came to ud2",
    "breakpoint": r".*(int3|breakpoint)",
    "assertion": r"assertion failed.*five it must be",
    "aborts": r"aborts\(\) called abort\(\)",
    "double-free": r"double free|heap corrupted or freed twice",
    "overrun": r"heap corrupted|bad address: _int_free\(\) .*0x41414141",
    "fortified": r"a check compiled in \(_FORTIFY_SOURCE\) has failed in (__strcpy_chk|fortified)\(\): \*\*\* buffer",
    "mutex": r"a mutex is damaged: pthread_mutex_lock\(\)",
    "smash": r"stack smashing detected",
    "misaligned": r".*misaligned|.*not aligned",
    "beyond-file": r".*a page of a mapped file.*beyond its end",
    "raises": r"(it|raises\(\)) sent SIGSEGV to itself|raises\(\) raised SIGSEGV",
    "handler-aborts": NULL.format(r"read_member\(\)") + r"|SIGSEGV \(SEGV_MAPERR\) for address 0x10 came first",
    "handler-raises": NULL.format(r"read_member\(\)"),
    "spin": r".*RLIMIT_CPU",
    "thread": NULL.format(r"read_member\(\)"),
    "through-libc": NULL.format(r"read_member\(\)"),
}
# What an address or a number of 64 bits is needed for.
WIDE = ("call-wild", "wild", "noncanonical", "divide-min")
OF_GLIBC = ("double-free", "overrun", "fortified", "mutex", "smash")
MUSL_SHAPES = {kind: C_SHAPES[kind] for kind in C_SHAPES if kind not in OF_GLIBC}
CPP_SHAPES = {
    "pure": r"a pure virtual function was called|jump to null",
    "throws": UNCAUGHT.format("std::runtime_error.*the pool is empty"),
    "noexcept": r"C\+\+ exception that could not leave a function that lets none out|std::terminate\(\) was called",
    "out-of-range": UNCAUGHT.format("std::out_of_range"),
    "joinable": r"std::terminate\(\) was called",
    "null-string": UNCAUGHT.format("std::logic_error"),
    "virtual-of-null": NULL.format(r""),
    "unwinds": r".*(uncaught C\+\+ exception|std::terminate\(\) was called)",
    "rethrows": UNCAUGHT.format("std::runtime_error.*kept for later") + r"|std::terminate\(\) was called$",
}
RUST_SHAPES = {
    "index": r"Rust panicked in shapes::index\(\)",
    "none": r"Rust panicked in shapes::none\(\)",
    "error": r"Rust panicked in shapes::error\(\)",
    "says": r"Rust panicked in shapes::says\(\)",
    "null": r"null dereference: |bad address: .* at 0x0,",
    "recurse": r"stack overflow",
    "aborts": r"shapes::aborts\(\) called abort\(\)",
    "in-thread": r"null dereference: |bad address: .* at 0x0,",
}
GO_SHAPES = {
    "null": r"(null dereference: |Go panicked in )main\.null\(\)",
    "index": r"Go panicked in main\.index\(\): an index was out of range",
    "assign": r"Go panicked in main\.assign\(\)",
    "says": r"Go panicked in main\.says\(\)",
    "divide": r"(integer division by zero in|Go panicked in) main\.divide\(\)",
    "recurse": r"Go's runtime gave up($|: stack overflow)",
    "in-goroutine": r"(null dereference: |Go panicked in )main\.null\(\)",
}


@dataclass(frozen=True)
class Crash:
    compiler: str
    optimized: str
    linked: str
    shape: str
    place: str
    source: str
    flags: tuple
    planted: str = field(compare=False)

    def __str__(self):
        return ", ".join((self.compiler, self.optimized, self.linked, self.shape, self.place))

    @property
    def runs(self):
        """In a container: as its process 1, which no signal kills that it has not asked for, or below one."""
        return "exec" if self.shape in ("aborts", "throws", "read-null") else ""

    def program(self):
        return compiled(self.source, *self.flags, **({"compiler": self.compiler} if self.compiler in COMPILERS else {}))


COMPILERS = ("gcc", "g++", "clang", "clang++", "musl-gcc")
C_FLAGS = ("-fstack-protector-strong",)


def all_crashes():
    for compiler in ("gcc", "clang", "g++", "clang++"):
        plus = compiler.endswith("++")
        for optimized, optimization in C_OPTIMIZED.items():
            for linked, how in LINKED.items():
                for shape, planted in (CPP_SHAPES if plus else C_SHAPES).items():
                    source = "shapes.cpp" if plus else "shapes.c"
                    if linked.startswith("32-bit"):
                        if shape in WIDE:
                            continue
                        planted = narrowed(planted)
                    yield compiler, optimized, linked, shape, source, (*C_FLAGS, *optimization, *how), planted
    for optimized, optimization in C_OPTIMIZED.items():
        for linked, how in (("dynamic", ()), ("static", ("-static",))):
            for shape, planted in MUSL_SHAPES.items():
                if "LTO" not in optimized:
                    yield "musl-gcc", optimized, linked, shape, "shapes.c", (*C_FLAGS, *optimization, *how), planted
    for optimized, optimization in RUST_OPTIMIZED.items():
        for shape, planted in RUST_SHAPES.items():
            yield "rustc", optimized, "PIE", shape, "shapes.rs", ("-Cpanic=abort", *optimization), planted
    for optimized, optimization in GO_OPTIMIZED.items():
        for linked, how in (("static", ()), ("PIE", ("-buildmode=pie",))):
            for shape, planted in GO_SHAPES.items():
                yield "go", optimized, linked, shape, "shapes.go", (*optimization, *how), planted


def narrowed(planted):
    """A long has 4 bytes, and the third of an item is at offset 8.  Debian's libc6-i386 has no symbols of _int_free()."""
    planted = planted.replace("8 bytes", "4 bytes").replace("0x10", "0x8")
    return planted.replace(r"_int_free\(\) .*0x41414141", r"(_int_free\(\)|libc\.so\.6\+0x\w+) .*where nothing is mapped")


@cache
def narrow_programs_run():
    try:
        return subprocess.run([compiled("narrow.c", "-m32", "-O2")], check=False).returncode == 0
    except OSError:
        return False


def draw(count, seed):
    """So many crashes, each compiler as often as the others, in an order by chance."""
    chance = random.Random(seed)
    by_compiler = {}
    for compiler, optimized, linked, shape, source, flags, planted in all_crashes():
        for place in PLACES:
            crash = Crash(compiler, optimized, linked, shape, place, source, flags, planted)
            by_compiler.setdefault(compiler, []).append(crash)
    drawn = []
    for crashes in by_compiler.values():
        chance.shuffle(crashes)
    while len(drawn) < count and any(by_compiler.values()):
        drawn += [crashes.pop() for crashes in by_compiler.values() if crashes]
    drawn = drawn[:count]
    chance.shuffle(drawn)
    return drawn


def says_what_was_planted(crash, sentence):
    return re.match(crash.planted, sentence) is not None


# gdb takes the name from debug information, a bundle from the symbol table.
ALIASES = {"cfree": ("free",), "rust_begin_unwind": ("panic_handler", "begin_panic_handler")}


def is_taste(ours, theirs):
    """The same place, and names that mean the same."""
    if ours is None or theirs is None or ours[0] != theirs[0] or ours[2] != theirs[2]:
        return False
    if ours[1] is None:  # gdb names an address in data by the variable there
        return theirs[1] == "data"
    if theirs[1] is None:
        return False
    mine, others = last_part(ours[1]), last_part(theirs[1])
    return mine == others or others in ALIASES.get(mine, ())


def last_part(name):
    """Of a qualified name, without types: each mangling writes these in its own way."""
    while (shorter := re.sub(r"(::)?<[^<>]*>", "", name.replace("->", ""))) != name:
        name = shorter
    name = re.sub(r"\{+closure.*", "closure", name.removesuffix(".abi0").removesuffix("{{vtable.shim}}"))
    return name.split("::")[-1]


@cache
def libraries(program):
    """What ld.so maps for a program, itself among it; () of one that is linked statically."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    interpreter = re.findall(r"program interpreter: (\S+)\]", headers)  # musl's is its C library as well
    return tuple(dict.fromkeys([*interpreter, *re.findall(r"(/\S+) \(0x", listed)]))


def own_root(program, directory):
    """A directory that is a root with what the program needs, and the program's path below it."""
    for library in libraries(program):
        there = directory / library.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), there)
    (directory / "tmp").mkdir(exist_ok=True)
    (directory / "app").mkdir(exist_ok=True)
    shutil.copy(program, directory / "app" / "shapes")
    return "/app/shapes"
