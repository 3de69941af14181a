"""incidentd under test."""

import os
import re
import signal
import subprocess

from lib.ctl import Ctl
from lib.incident import committed, of_pid
from lib.programs import INCIDENTD
from lib.wait import PATIENCE, SANITIZED, until

CRASH_RULE = """
[[rule]]
name    = "crash"
on      = "signal"
signals = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGSYS"]
"""

SANITIZER_REPORT = re.compile(
    r"ERROR: (Address|Leak)Sanitizer|runtime error:|AddressSanitizer:DEADLYSIGNAL"
    r"|(WARNING|ERROR|FATAL): ThreadSanitizer"
)


class Daemon:
    """One incidentd with state, rules and configuration of its own under a directory."""

    def __init__(self, directory, rules=CRASH_RULE, config="", prefix=()):
        self.state = directory / "state"
        self.rules = directory / "rules"
        self.config = directory / "incidentd.toml"
        self.log = directory / "log"
        self.rules.mkdir(exist_ok=True)
        (self.rules / "test.toml").write_text(rules)
        # What a test looks at must not depend on how busy the machine is: only tests of the budget have one.
        self.config.write_text(config if "[cost]" in config else f'{config}\n[cost]\nbudget = "off"\n')
        self.prefix = list(prefix)
        self.process = None
        self.ctl = Ctl(self.state)

    @property
    def command(self):
        options = ["--config", self.config, "--rules", self.rules, "--state", self.state]
        return [*self.prefix, INCIDENTD, *map(str, options)]

    def check(self, **options):
        return subprocess.run(
            [*self.command, "--check"], capture_output=True, text=True, timeout=PATIENCE, check=False, **options
        )

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*self.command, "--foreground"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment()
            )
        until(self.is_ready, "incidentd to answer", self.tail)
        return self

    def environment(self):
        """LeakSanitizer stops its own threads by ptrace, and fails where strace has them already."""
        own = dict(os.environ)
        if "ASAN_OPTIONS" in own and "strace" in self.prefix:
            own["ASAN_OPTIONS"] += ":detect_leaks=0"
        return own

    def is_ready(self):
        assert self.process.poll() is None, f"incidentd ended with {self.process.returncode}:\n{self.log.read_text()}"
        return self.ctl.run("--json", "status").returncode == 0

    def stop(self):
        """SIGTERM, and then nothing may be amiss."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=PATIENCE)
        self.process = None
        log = self.no_report()
        assert status == 0, f"incidentd ended with {status}:\n{log}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None
        self.no_report()

    def no_report(self):
        """Its log, in which no sanitizer may have reported anything."""
        log = self.log.read_text(errors="replace")
        report = SANITIZER_REPORT.search(log)
        assert not report, log[report.start() :]
        return log

    def processes(self):
        """Of its other processes the pids, by name."""
        found = {}
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            try:
                with open(f"/proc/{self.process.pid}/task/{task}/children", encoding="ascii") as children:
                    pids = [int(pid) for pid in children.read().split()]
            except (FileNotFoundError, ProcessLookupError):  # the thread has ended since it was listed
                continue
            for pid in pids:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                    found[comm.read().strip()] = pid
        return found

    def incidents(self):
        return committed(self.state)

    def incident(self, pid):
        """The one incident of a process, as soon as it is committed."""
        (found,) = until(lambda: of_pid(self.state, pid), f"an incident of {pid}", self.tail)
        return found

    def incident_of_child(self, ppid):
        def found():
            return [i for i in self.incidents() if i.process["ppid"] == ppid]

        (child,) = until(found, f"an incident of a child of {ppid}", self.tail)
        return child

    def joined_incident(self, pid):
        """The same, once the daemon has made up its mind about the core."""
        self.incident(pid)

        def settled():
            (found,) = of_pid(self.state, pid)
            return found if not found.record["core"].get("pending") else None

        return until(settled, f"the core of {pid} to be joined or given up", self.tail)

    def explained_incident(self, pid):
        """The same, once its stacks are unwound and it has its verdict."""
        self.incident(pid)

        def explained():
            (found,) = of_pid(self.state, pid)
            return found if found.record.get("analysed") else None

        return until(explained, f"the incident of {pid} to be explained", self.tail)

    def spoken_incident(self, pid):
        """The same, once its last words are read, or it says why not."""
        self.incident(pid)

        def spoken():
            (found,) = of_pid(self.state, pid)
            return found if found.record["last_words"]["state"] != "pending" else None

        return until(spoken, f"the last words of {pid}", self.tail)

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
