"""A fault at each system call of a capture: of the daemon's threads and of the analyser, from a crash to its report.

One crash is traced.  Then each of its calls fails, hangs, or is where the process is killed, one a crash.  As that takes
long, only as many as SECONDS allow are drawn by chance; INCIDENTD_FAULTS is another number, or "all".  Those until the
bundle is written are tried with a daemon that does not analyse, because then a crash takes a tenth of the time.
"""

import hashlib
import json
import os
import random
import shutil
import time
from collections import defaultdict, deque
from contextlib import suppress
from itertools import zip_longest

import pytest

from lib.daemon import SANITIZED
from lib.faults import BROKEN, ERRORS, NUMBERS, FaultyDaemon, Point
from lib.incident import of_pid
from lib.programs import victim
from lib.victims import run
from lib.wait import PATIENCE, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SANITIZED, reason="a sanitizer ends the program that it can get no memory for"),
]

SECONDS = float(os.environ.get("INCIDENTD_FAULTS", "35").replace("all", "inf"))  # for each half
FAULTS_A_START = 16
SEED = int(os.environ.get("INCIDENTD_FAULTS_SEED", 1))
AT_LEAST = 200

EACH_WHOLE = "[storm]\nfull = 1000000\n"
RULE = """
[[rule]]
name  = "crash"
on    = "signal"
match = { comm = ["faulted"] }
"""


def whole(path):
    """Each file is there and is what MANIFEST says, and MANIFEST is at its end."""
    *files, end = (path / "MANIFEST").read_text().splitlines()
    assert end == f"end {len(files)}", path
    for line in files:
        digest, size, name = line.split(" ", 2)
        content = (path / name).read_bytes()
        assert len(content) == int(size) and hashlib.sha256(content).hexdigest() == digest, path / name
    return {line.split(" ", 2)[2] for line in files}


class Host:
    """One daemon after another on the same state directory, and crashes."""

    def __init__(self, directory, until_when):
        self.directory = directory
        self.analyses = until_when == "its analysis"
        self.joins = until_when == "its core"
        self.victim = directory / "faulted"
        shutil.copy(victim("die"), self.victim)
        self.daemon = None
        self.descriptors = None  # that a daemon has when nothing is to be done

    def begin(self, calls):
        self.end()
        config = EACH_WHOLE + f'[capture]\nanalyse = {str(self.analyses).lower()}\ncore_wait = "2s"\n'
        self.daemon = FaultyDaemon(self.directory, calls=calls, rules=RULE, config=config)
        self.descriptors = None
        return self.daemon.start()

    def told(self, pid):
        """The incident of a crash, when all that will become known of it is."""
        self.daemon.incident(pid)
        until(lambda: not self.left_over(), "the incident to be told", self.daemon.tail)
        (incident,) = of_pid(self.daemon.state, pid)
        return incident

    def end(self):
        """Of a daemon that was left to itself by a test that failed."""
        if self.daemon and self.daemon.process and self.daemon.process.poll() is None:
            self.daemon.supervisor.release()
            self.daemon.kill()

    def crash(self):
        return run(str(self.victim), "null-read").pid

    @property
    def incidents(self):
        return self.daemon.state / "incidents"

    def left_over(self):
        """What is neither a bundle nor the reserve of space: half bundles, and marks of what was not told."""
        return [p.name for p in self.incidents.iterdir() if p.name.startswith(".") and p.name != ".reserve"]

    def lost(self):
        with suppress(ConnectionError, FileNotFoundError):  # it has just ended
            return self.daemon.status()["incidents"]["failed"]
        return 0

    def settled(self, pid, lost):
        """Its incident is written, joined, explained and told, or counted as lost."""
        return (of_pid(self.daemon.state, pid) or self.lost() > lost) and not self.left_over()

    def forget(self):
        for path in self.incidents.iterdir():
            if not path.name.startswith("."):
                shutil.rmtree(path)


WHO = {
    "until it is written": {"main", "writer", "thread"},
    "its analysis": {"writer", "thread", "tool", "analyser"},
    "its core": {"search", "writer"},
}


@pytest.fixture(scope="module", params=WHO)
def traced(request, tmp_path_factory):
    """A host, the points of one capture, and the files of its bundle."""
    if request.param == "its core":
        request.getfixturevalue("coredump_host")
    host = Host(tmp_path_factory.mktemp("faults"), request.param)
    watcher = host.begin(tuple(NUMBERS))
    traces = []
    for _ in range(3):
        watcher.supervisor.watch()
        incident = host.told(host.crash())
        traces.append(watcher.supervisor.release())
    files = whole(incident.path)
    watcher.kill()  # to end in good order takes many calls
    host.forget()
    points = [Point(*key, n + 1) for key in sorted(traces[0]) for n in range(min(trace[key] for trace in traces))]
    assert {point.role for point in points} >= WHO[request.param]
    yield host, [point for point in points if point.role in WHO[request.param]], files
    host.end()


def faults_at(point):
    return [(point, action) for action in (*ERRORS.get(point.call, (BROKEN,)), "kill", "hang")]


def test_so_many_points(traced):
    _, points, _ = traced
    assert len(points) >= AT_LEAST


# A process that nobody keeps, such as a handler of its core, may have ended before /proc is read.
ENDED = ("No such file", "No such process", "any more", "mountinfo: Invalid argument", "of its control group")


class Trial:
    """One fault, and what must hold after it."""

    def __init__(self, host, files, fault):
        self.host, self.files = host, files
        self.point, self.action = fault
        self.fault = fault

    @property
    def daemon(self):
        return self.host.daemon

    def ends_daemon(self):
        return self.action == "kill" and self.point.role in ("main", "writer", "search", "thread", "tool")

    def run(self):
        """Whether the fault took place."""
        lost, supervisor = self.host.lost(), self.daemon.supervisor
        supervisor.watch(self.fault)
        pid = self.host.crash()

        def happened():
            return supervisor.fired or of_pid(self.daemon.state, pid) and not self.host.left_over()

        until(happened, "the call, or the incident without it", self.daemon.tail)
        if not supervisor.fired:
            supervisor.release()
        elif self.ends_daemon():
            self.after_a_kill(pid)
        else:
            self.after_a_fault(pid, lost)
        self.next_is_whole()
        if self.host.descriptors is None:
            self.host.descriptors = self.daemon.descriptors()
        until(lambda: self.daemon.descriptors() <= self.host.descriptors, "descriptors to be closed", self.daemon.tail)
        self.host.forget()
        return bool(supervisor.fired)

    def after_a_fault(self, pid, lost):
        pids = [pid]
        if self.action == "hang":
            if self.point.role != "main":  # whatever else hangs, events are read and questions answered
                self.daemon.status()
            pids.append(self.host.crash())
        self.daemon.supervisor.release()
        for one in pids:
            until(lambda: self.ended() or self.host.settled(one, lost), f"the incident of {one} or its loss", self.daemon.tail)
        if self.ended():  # rather than to go on without its event loop; the manager starts it again
            assert self.point.role in ("main", "tool") and self.daemon.process.wait() == 1, self.daemon.tail()
            assert "critical incidentd: " in self.daemon.log.read_text()
            self.after_a_kill(pid)
            return
        for one in pids:
            for incident in of_pid(self.daemon.state, one):
                self.accounted(incident)

    def ended(self):
        return self.daemon.process.poll() is not None

    def accounted(self, incident):
        """What another bundle has and this one has not, it or the daemon says."""
        missing = self.files - whole(incident.path)
        says = [one for one in incident.quality["collectors"] if not one["ok"] or one["error"]]
        analysed = incident.record.get("analysed")
        if analysed:  # a child of the analyser may have met the fault
            notes = json.loads((incident.path / "analysis.json").read_text())["notes"]
            missing -= {file for file in missing if any(note.startswith(f"{file}: not made") for note in notes)}
        analyses = self.daemon.status()["analyses"]
        assert not missing or says or not analysed and analyses["failed"], missing

    def after_a_kill(self, pid):
        self.daemon.process.wait(PATIENCE)
        self.daemon.no_report()
        for path in self.host.incidents.iterdir():
            if not path.name.startswith("."):
                whole(path)
        self.host.begin(self.daemon.calls)
        halves = [name for name in self.host.left_over() if not name.startswith(".unreported-")]
        assert not halves, halves
        until(lambda: not self.host.left_over(), "what was not told to be told", self.daemon.tail)
        found = of_pid(self.daemon.state, pid)
        assert len(found) <= 1
        for incident in found:
            whole(incident.path)

    def next_is_whole(self):
        for _ in range(3):  # others that die on this machine may take the room in the ring buffer, which is said
            incident = self.host.told(self.host.crash())
            self.accounted(incident)
            if incident.quality["threads_captured"] == 1 and incident.crashed["registers"]:
                assert not self.host.joins or incident.record["core"]["join"] == "exact", incident.record["core"]
                break
            assert not incident.quality["complete"] and incident.quality["losses"] + incident.quality["missing"]
        else:
            raise AssertionError("no crash is captured any more")
        failed = [one["error"] or "" for one in incident.quality["collectors"] if not one["ok"]]
        wrong = [error for error in failed if not any(why in error for why in ENDED)]
        assert not wrong, wrong
        self.daemon.ctl.text("verify", "--all")


def by_call(points):
    """The faults at each call's points: of each role and action one, then of each a second, and so on."""
    chance = random.Random(SEED)
    kinds = defaultdict(lambda: defaultdict(list))
    for point in points:
        for fault in faults_at(point):
            kinds[point.call][point.role, fault[1]].append(fault)
    queues = []
    for kind in kinds.values():
        for faults in kind.values():
            chance.shuffle(faults)
        queues.append(deque(fault for turn in zip_longest(*kind.values()) for fault in turn if fault))
    chance.shuffle(queues)
    return queues


def test_faults(traced, record_property):
    """After each of them: whole bundles, nothing half, the next crash whole, the loss counted, all descriptors closed."""
    host, points, files = traced
    end = time.monotonic() + SECONDS
    queues = by_call(points)
    there_are = sum(map(len, queues))
    done, failed, not_reached = 0, [], 0

    while queues and time.monotonic() < end:
        queue = queues.pop(0)
        host.begin((queue[0][0].call,))
        for fault in [queue.popleft() for _ in range(min(len(queue), FAULTS_A_START))]:
            if time.monotonic() > end:
                break
            done += 1
            try:
                not_reached += not Trial(host, files, fault).run()
            except (AssertionError, OSError) as error:
                failed.append(f"{fault[0]} {fault[1]}: {error}\n{host.daemon.tail()}")
                print(failed[-1], flush=True)
                host.begin(host.daemon.calls)
        host.daemon.stop()
        if queue:
            queues.append(queue)
    said = f"{done} of {there_are} faults at {len(points)} calls tried, {not_reached} not reached (seed {SEED})"
    record_property("faults", said)
    print(said)
    assert not failed, f"{said}; {len(failed)} failed:\n" + "\n\n".join(failed)
    if done < there_are:
        pytest.skip(f"{said}; INCIDENTD_FAULTS=all tries all")


# By role and call, which of them (-1: the last of a capture), how it fails, and what is logged.
FAILED_BEFORE = {
    "its analysis": [
        # Who starts the analyser ended, and with it the daemon.
        ("tool", "recvmsg", 2, "EIO", ""),
        # Each later answer was taken for that of the request before it.
        ("thread", "recvmsg", 1, "EIO", ""),
        # The analyser had ended, and was waited for until its patience of a minute was over.
        ("tool", "pidfd_open", 1, "EMFILE", "not analysed: a pidfd of the tool"),
    ],
    "until it is written": [
        # The bundle was taken for one that was removed, and nobody was told of it.
        ("writer", "fcntl", -1, "EMFILE", "is written again"),
        # It was told of by the next daemon, as long as this one ran by nobody.
        ("thread", "sendmsg", 1, "ENOMEM", ""),
        # The next daemon told of it a second time.
        ("main", "unlinkat", -1, "EIO", "is tried again; until then the next start would tell of it a second time"),
    ],
}


def calls_of_a_capture(host):
    """When what is read once for all captures has been."""
    for _ in range(3):
        host.daemon.supervisor.watch()
        host.told(host.crash())
        calls = host.daemon.supervisor.release()
    host.forget()
    return calls


def test_faults_that_it_failed_at_before(traced, request):
    host, _, files = traced
    before = FAILED_BEFORE.get(request.node.callspec.params["traced"])
    if not before:
        pytest.skip("it failed at none")
    for role, call, n, action, says in before:
        # How many calls a capture takes depends on how much of the process is still there: one may take fewer.
        for fewer in range(10):
            watcher = host.begin((call,))
            nth = n if n > 0 else n + 1 + calls_of_a_capture(host)[role, call] - fewer // 2
            reached = Trial(host, files, (Point(role, call, nth), action)).run()
            said = says in watcher.log.read_text()
            watcher.stop()
            if reached and said:
                break
        assert reached and said, (role, call, n, says)
