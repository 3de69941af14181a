"""A process of many threads that crashes when told (programs/crash.c)."""

import subprocess
from contextlib import contextmanager


class Crashing:
    def __init__(self, program, threads, calls=0):
        self.process = subprocess.Popen(
            [program, str(threads), str(calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = int(self.process.stdout.readline())  # of the one that will crash; the process is its parent

    def crash(self):
        """How many ms its parent had to wait for its end."""
        said, _ = self.process.communicate("\n")
        return float(said)


@contextmanager
def crashing(bench, threads, calls=0):
    one = Crashing(bench.compiled("crash"), threads, calls)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.communicate()  # the end of its input ends it
