"""What other tools say of the same thing, to compare with."""

import re
import subprocess

from lib.wait import PATIENCE


def build_id(path):
    """The GNU build-id of an ELF file, as readelf prints it."""
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


class Strace:
    """A run of a program under strace -f: the names of its calls, thread by thread."""

    CALL = re.compile(r"^(\d+) +(\w+)\(")
    KILLED = re.compile(r"^(\d+) \+\+\+ killed by (\w+)")

    def __init__(self, log, *argv, **options):
        subprocess.run(
            ["strace", "-f", "-qq", "-o", str(log), *argv],
            **{
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.DEVNULL,
                "stderr": subprocess.DEVNULL,
                "timeout": PATIENCE,
                "check": False,
            }
            | options,
        )
        self.lines = log.read_text(errors="replace").splitlines()

    def calls(self, tid):
        found = (self.CALL.match(line) for line in self.lines)
        return [call[2] for call in found if call and int(call[1]) == tid]

    def first_tid(self):
        return int(self.lines[0].split()[0])
