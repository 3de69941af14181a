"""What a part is given: the build, how long it may take, and things to measure with."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
TOOL_PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/lib/postgresql/15/bin"])


class Bench:
    def __init__(self, build, rounds, quick, work, programs=None):
        self.build = Path(build)
        self.rounds = rounds
        self.quick = quick
        self.work = Path(work)
        self.programs = programs
        self.missing = []
        # tests/e2e/lib wants to know when it is imported; parts are imported after this.
        os.environ["INCIDENTD_BIN"] = str(self.build / "daemon/incidentd")
        os.environ["INCIDENTCTL_BIN"] = str(self.build / "postmortem/incidentctl")
        os.environ["VICTIMS_DIR"] = str(self.build / "tests/victims")

    def directory(self, name):
        """An empty one, below work."""
        return Path(mkdtemp(prefix=f"{name}-", dir=self.work))

    @cache
    def compiled(self, name, *flags):
        """The program of programs/NAME.c; flags stand behind the source, so -l works."""
        named = "".join([name, *flags]).replace("/", "_").replace("-", "_")
        if self.programs:
            return self.programs / named
        program = self.work / named
        source = PROGRAMS / f"{name}.c"
        subprocess.run(["gcc", "-O2", "-Wall", "-o", program, source, *flags, "-pthread"], check=True)
        return program

    @contextmanager
    def daemon(self, rules=None, config="", name="daemon", prefix=()):
        """An incidentd that answers, as the tests' class; without rules it has the tests' crash rule.

        prefix: a command that starts it.
        """
        from lib.daemon import CRASH_RULE, Daemon  # needs the environment that __init__ made

        watcher = Daemon(self.directory(name), rules=CRASH_RULE if rules is None else rules, config=config, prefix=prefix)
        try:
            yield watcher.start()
        finally:
            watcher.stop()

    def tool(self, name):
        """Its path; what is not there is told of at the end."""
        found = shutil.which(name, path=TOOL_PATH)
        if found is None:
            self.lacks(f"{name} is not installed")
        return found

    def lacks(self, what):
        """Something that should have been measured and could not be."""
        if what not in self.missing:
            self.missing.append(what)
