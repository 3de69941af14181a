"""An incident bundle as its files say, read without incidentctl."""

import json
import re
from functools import cached_property
from pathlib import Path

# <UTC time>-<rule>-<comm>-<pid>-<short id>
PID_IN_NAME = re.compile(r"-(\d+)-[0-9a-z]+$")


class Incident:
    def __init__(self, path):
        self.path = Path(path)
        self.id = self.path.name

    def text(self, name):
        return (self.path / name).read_text(errors="surrogateescape")

    @cached_property
    def record(self):
        return json.loads(self.text("incident.json"))

    @cached_property
    def threads(self):
        return json.loads(self.text("threads.json"))

    @cached_property
    def timeline(self):
        return [json.loads(line) for line in self.text("timeline.jsonl").splitlines()]

    @property
    def process(self):
        return self.record["process"]

    @property
    def signal(self):
        return self.record["signal"]

    @property
    def quality(self):
        return self.record["quality"]

    @property
    def tids(self):
        return {thread["tid"] for thread in self.threads}

    def thread(self, tid):
        (found,) = [thread for thread in self.threads if thread["tid"] == tid]
        return found

    def accounting(self, tid):
        """How many of a thread's syscalls were recorded, overwritten by newer ones, lost."""
        return self.thread(tid)["accounting"]

    @property
    def crashed(self):
        (found,) = [thread for thread in self.threads if thread["crashed"]]
        return found

    @property
    def triggers(self):
        """The thread that made the rule fire, whether or not it died of that."""
        return self.thread(self.record["thread"]["tid"])

    def events(self, *kinds):
        return [event for event in self.timeline if event["kind"] in kinds]

    def calls(self, tid):
        """A thread's syscalls in the order it entered them."""
        return [event for event in self.events("syscall", "open") if event["tid"] == tid]

    def opens(self, tid):
        return [event for event in self.events("open") if event["tid"] == tid]

    def memory_events(self, tid):
        """Calls that changed the address space, with what they changed under "memory"."""
        return [event for event in self.events("syscall", "alloc") if event["tid"] == tid and "memory" in event]


def committed(state):
    """Bundles under a state directory, oldest first."""
    incidents = Path(state) / "incidents"
    if not incidents.is_dir():
        return []
    return [Incident(path) for path in sorted(incidents.iterdir()) if not path.name.startswith(".")]


def of_pid(state, pid):
    return [i for i in committed(state) if (found := PID_IN_NAME.search(i.id)) and int(found[1]) == pid]
