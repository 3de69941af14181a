"""Programs that repeat something as often as they are told, and empty probes on them."""

import subprocess
from contextlib import contextmanager


class Loop:
    """It reads "COUNT WHAT" and answers with ns for each."""

    def __init__(self, *command, **options):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def run(self, count, what):
        self.process.stdin.write(f"{count} {what}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def warm(self, count, what):
        self.run(count // 10, what)
        return self.run(count, what)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def loop(*command, **options):
    one = Loop(*command, **options)
    try:
        yield one
    finally:
        one.end()


@contextmanager
def held(command):
    """A program that says "ready" and ends with its input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n", f"{command[0]} did not attach"
            yield
        finally:
            process.stdin.close()


def bare_probes(bench, pid, path, places):
    """An empty BPF program at each place of the file in that process; places: "OFFSET", or "OFFSETr" for its return."""
    return held([bench.compiled("bare_uprobes", "-lbpf"), str(pid), path, *places])
