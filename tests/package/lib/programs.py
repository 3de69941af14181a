"""What is tested comes by environment, as tests/run sets it: the build directory, and in it
the programs, the pages and what cpack makes of them."""

import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("INCIDENTD_BUILD_DIR", SOURCE / "build")).resolve()
INCIDENTD = Path(os.environ.get("INCIDENTD_BIN", BUILD / "daemon/incidentd"))
INCIDENTCTL = Path(os.environ.get("INCIDENTCTL_BIN", BUILD / "postmortem/incidentctl"))
PAGES = BUILD / "systemd/man"
BUNDLES = SOURCE / "tests/data/bundles"


def output(*command, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def add_bundle(state, name, sample="crash"):
    """A committed bundle of this name, made of a sample; its MANIFEST is not looked at by readers."""
    directory = Path(state) / "incidents" / name
    directory.mkdir(parents=True)
    for file in (BUNDLES / sample).rglob("*"):
        if file.is_file():
            target = directory / file.relative_to(BUNDLES / sample)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    (directory / "MANIFEST").write_text("", encoding="utf-8")
    return directory
