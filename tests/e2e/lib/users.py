"""Running programs as other users, who need no entry in /etc/passwd."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

TEMPORARY = Path(tempfile.gettempdir())


def as_user(uid):
    """The beginning of a command line that runs the rest as this user, with no right of root's."""
    if uid == 0:
        return ()
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


@contextmanager
def open_to_all(*programs):
    """A directory with copies of programs that everybody may run: the checkout may be root's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        for program in programs:
            shutil.copy(program, directory)
        yield Path(directory)


def open_to_others(directory):
    """Lets everybody pass to a directory of pytest's.  The machine's own stay as they are."""
    if not directory.is_relative_to(TEMPORARY):
        pytest.skip(f"pytest's directories are not in {TEMPORARY}, and whose the others are is not known")
    for one in (directory, *directory.parents):
        if one == TEMPORARY:
            break
        one.chmod(0o755)
