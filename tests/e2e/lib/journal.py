"""What the journal has."""

import subprocess

from lib.wait import PATIENCE


def journal(*match):
    """The messages of the entries that match, oldest first."""
    said = subprocess.run(
        ["journalctl", "-q", "--no-pager", "-a", "-o", "cat", *match], capture_output=True, check=True, timeout=PATIENCE
    )
    return said.stdout.decode(errors="replace").splitlines()
