"""Files that nobody can read to their end."""

from contextlib import contextmanager

import pytest

from .compiled import compiled
from .victims import start
from .wait import PATIENCE


@contextmanager
def dead_mount(directory, *program):
    """A file system whose server answers no read, like that of a network file system that is gone.  With a program, its
    file is that one: execve(2) of it hangs between the old program and the new one.  fail() ends all reads with EIO."""
    directory.mkdir()
    server = start(compiled("dead_mount.c"), str(directory), *program, stdin=-1, stderr=None)
    try:
        if server.stdout.readline() != b"ready\n":
            pytest.skip("FUSE cannot be mounted here")

        def fail():
            server.stdin.write(b"f")
            server.stdin.flush()

        yield directory / "file", fail
    finally:
        server.stdin.close()
        server.wait(PATIENCE)
        server.stdout.close()
