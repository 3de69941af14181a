"""What `incidentd --check` makes of a text."""

import subprocess
import tempfile
from pathlib import Path

from lib.programs import INCIDENTD


def checked(tmp_path, config="", rule=""):
    """(exit status, everything printed)"""
    directory = Path(tempfile.mkdtemp(prefix="check", dir=tmp_path))
    (directory / "rules").mkdir()
    (directory / "incidentd.toml").write_text(config, encoding="utf-8")
    (directory / "rules/rule.toml").write_text(rule, encoding="utf-8")
    done = subprocess.run([INCIDENTD, "--check", "--config", directory / "incidentd.toml", "--rules", directory / "rules"],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stderr + done.stdout


def check(tmp_path, config="", rule=""):
    """Everything printed."""
    return checked(tmp_path, config, rule)[1]
