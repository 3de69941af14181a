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
def compiled(source, *flags, compiler=None):
    """The program's path.  Flags go to gcc, g++, rustc or go build; compiler: another one that takes gcc's."""
    name = Path(source).stem + (compiler or "") + "".join(flag.replace("/", "_") for flag in flags)
    program = directory() / name.replace("-", "_").replace(" ", "_")
    asked = command(source, flags, str(program), compiler)
    subprocess.run(asked, check=True, env=os.environ | {"GOCACHE": f"{directory()}/go"})
    return str(program)


def command(source, flags, program, compiler=None):
    path = str(PROGRAMS / source)
    if source.endswith(".go"):
        return ["go", "build", *flags, "-o", program, path]
    if source.endswith(".rs"):
        return ["rustc", "-g", *flags, "-o", program, path]
    compiler = compiler or ("g++" if source.endswith(".cpp") else "gcc")
    return [compiler, "-g", "-w", *flags, "-o", program, path, "-pthread"]
