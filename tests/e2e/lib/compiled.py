"""Programs of tests/e2e/programs, compiled as a test wants them."""

import os
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
    """The program's path.  Flags go to its compiler."""
    name = Path(source).stem + "".join(flag.replace("/", "_") for flag in flags)
    program = directory() / name.replace("-", "_")
    file = str(PROGRAMS / source)
    if source.endswith(".rs"):
        command = ["rustc", "-g", *flags, "-o", str(program), file]
    elif source.endswith(".go"):
        command = ["go", "build", *flags, "-o", str(program), file]
    else:
        compiler = "g++" if source.endswith(".cpp") else "gcc"
        command = [compiler, "-g", "-w", *flags, "-o", str(program), file, "-pthread"]
    subprocess.run(command, check=True, env={"HOME": str(directory())} | os.environ)
    return str(program)
