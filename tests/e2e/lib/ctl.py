"""incidentctl as a user runs it."""

import json
import subprocess

from lib.programs import INCIDENTCTL
from lib.wait import PATIENCE


class Ctl:
    def __init__(self, state, binary=INCIDENTCTL, prefix=()):
        self.state = state
        self.command = [*prefix, binary, "--state", str(state)]

    def run(self, *arguments, **options):
        return subprocess.run(
            [*self.command, *map(str, arguments)],
            **{"capture_output": True, "stdin": subprocess.DEVNULL, "text": True, "timeout": 2 * PATIENCE} | options,
        )

    def text(self, *arguments):
        done = self.run(*arguments)
        assert done.returncode == 0, f"incidentctl {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *arguments):
        """The one JSON document that a verb prints."""
        return json.loads(self.text("--json", *arguments))

    def json_lines(self, *arguments):
        """list and timeline print one document a line."""
        return [json.loads(line) for line in self.text("--json", *arguments).splitlines()]
