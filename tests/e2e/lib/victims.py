"""Running programs that die."""

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

from lib.programs import victim
from lib.wait import PATIENCE


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
def waiting_victim(kind, program=victim("die")):
    """`die KIND wait`, ready to die; let_die() makes it do so."""
    process = start(program, kind, "wait", stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def let_die(process):
    return finish(process, stdin=b"")


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
