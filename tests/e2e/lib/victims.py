"""Running programs that die."""

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

from lib.programs import victim
from lib.wait import PATIENCE, until


@dataclass
class Ended:
    pid: int
    status: int  # as subprocess has it: -signal, or the exit status
    lines: list


def finish(process, stdin=None):
    output, _ = process.communicate(stdin, timeout=PATIENCE)
    return Ended(process.pid, process.returncode, (output or b"").decode(errors="surrogateescape").splitlines())


def start(*argv, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL} | options
    return subprocess.Popen(argv, **options)


def run(*argv, **options):
    """Runs a program to its end, whatever end that is."""
    return finish(start(*argv, **options))


@contextmanager
def waiting_victim(kind, *program, **options):
    """`die KIND wait`, ready to die; let_die() makes it do so.  program: it or a copy, behind what starts it."""
    process = start(*(program or (victim("die"),)), kind, "wait", stdin=subprocess.PIPE, **options)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def let_die(process):
    return finish(process, stdin=b"")


READ, PAUSE = 0, 34  # system calls, as asm/unistd_64.h numbers them


def is_in(pid, call):
    """This thread is in that system call: in the kernel, which says "running" of one that is not."""
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().startswith(f"{call} ")


def until_in(process, call):
    """What the C library does before, such as blocking all signals while it makes a thread, is over then."""
    until(lambda: is_in(process.pid, call), f"it to be in system call {call}")


@contextmanager
def running(*argv, **options):
    """A program that runs until the block ends."""
    process = start(*argv, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
