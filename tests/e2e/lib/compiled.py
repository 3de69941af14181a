"""Programs of tests/e2e/programs, compiled as a test wants them."""

import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"


@cache
def directory():
    return Path(mkdtemp(prefix="incidentd-programs-"))


@cache
def compiled(source, *flags):
    """The program's path.  Flags go to gcc or g++."""
    name = Path(source).stem + "".join(flag.replace("/", "_") for flag in flags)
    program = directory() / name.replace("-", "_")
    compiler = "g++" if source.endswith(".cpp") else "gcc"
    command = [compiler, "-g", "-w", *flags, "-o", str(program), str(PROGRAMS / source), "-pthread"]
    subprocess.run(command, check=True)
    return str(program)
