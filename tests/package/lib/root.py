"""A throw-away root directory: this machine's, with whatever is changed kept in memory.
Packages are installed there by the real dpkg; the machine sees nothing of it."""

import os
import re
import subprocess
from pathlib import Path


class Root:
    def __init__(self, directory):
        self.directory = Path(directory)
        self.changed = self.directory / "memory/upper"
        self.path = self.directory / "root"

    def mount(self):
        memory = self.directory / "memory"
        for one in (memory, self.path):
            one.mkdir()
        try:
            mount("-t", "tmpfs", "none", memory)
            (memory / "work").mkdir()
            self.changed.mkdir()
            mount("-t", "overlay", "-o", f"lowerdir=/,upperdir={self.changed},workdir={memory}/work", "none", self.path)
        except subprocess.CalledProcessError:
            self.unmount()
            raise
        mount("-t", "tmpfs", "none", self.path / "run")  # PID 1 there is not systemd
        mount("-t", "proc", "none", self.path / "proc")
        mount("--bind", "/dev", self.path / "dev")
        # the index of all manual pages is half a minute's work
        (self.path / "var/lib/man-db/auto-update").unlink(missing_ok=True)
        return self

    def unmount(self):
        for one in ("root/dev", "root/proc", "root/run", "root", "memory"):
            if os.path.ismount(self.directory / one):
                subprocess.run(["umount", self.directory / one], check=True)

    def run(self, *command):
        """As root in there, without the machine's environment; what it says on both."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(["chroot", self.path, *command], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        done.stderr = re.sub(r"Not building database; man-db/.*\n", "", done.stderr)
        return done

    def has(self, path):
        return os.path.lexists(self.path / path.lstrip("/"))

    def read(self, path):
        return (self.path / path.lstrip("/")).read_text(encoding="utf-8")

    def write(self, path, text):
        file = self.path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def changes(self):
        """Paths of files that are there and were not, or are others."""
        return sorted("/" + str(file.relative_to(self.changed)) for file in self.changed.rglob("*")
                      if not file.is_dir() and not is_whiteout(file))


def is_whiteout(file):
    """overlayfs: a character device 0:0 says that the file is gone."""
    status = file.lstat()
    return status.st_rdev == 0 and (status.st_mode & 0o170000) == 0o020000


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True, capture_output=True, text=True)
