"""Processes that are blocked in calls for as long as a test wants (tests/victims/callers.c)."""

import subprocess
from contextlib import contextmanager

from lib.programs import victim
from lib.wait import PATIENCE


def start(*arguments, program=None, prefix=()):
    return subprocess.Popen(
        [*prefix, program or victim("callers"), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def end(process):
    """However it ends now that there is nothing more to read: -signal, or the exit status."""
    if not process.stdin.closed:
        process.stdin.close()
    status = process.wait(timeout=PATIENCE)
    process.stdout.close()
    return status


@contextmanager
def told(name, *kind, **options):
    process = start("told", name, *kind, **options)
    try:
        yield process
    finally:
        process.kill()
        end(process)


def tell(process, what):
    """Whether it has done that; no: it has died of it."""
    for each in what:
        process.stdin.write(each.encode())
        if process.stdout.read(1) != each.encode():
            return False
    return True
