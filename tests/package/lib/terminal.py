"""An interactive shell on a terminal of its own, typed at as a person does."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

LIMIT = 30  # seconds until a shell that says nothing has failed


class Terminal:
    def __init__(self, command, env):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, env)
        # wide, so that nothing wraps
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 400, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)  # hang up
        os.waitpid(self.pid, 0)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def until(self, pattern):
        """What has been printed since the last call, up to and with the pattern; its match."""
        end = time.monotonic() + LIMIT
        while not (match := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"nothing like {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        before, self.seen = self.seen[: match.end()], self.seen[match.end():]
        return before, match
