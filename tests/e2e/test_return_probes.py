"""Stacks through functions whose return is probed are those that gdb shows where nothing is probed.

While a call is under way the kernel's trampoline stands where its return address stood (kernel/events/uprobes.c).  Each
program dies twice, at the same addresses: from a copy that no rule about latency names, and with its functions probed.
"""

import json
import os
import shutil
import subprocess

import pytest

from lib.backtrace import SCRIPT, differences, frames_of, gdb_frames, of_gdb
from lib.compiled import compiled
from lib.daemon import Daemon
from lib.heap import Heap
from lib.heap_victim import config, until_recorded
from lib.heap_victim import rule as heap_rule
from lib.victims import PAUSE, finish, running, start, until_in
from lib.wait import PATIENCE, until

pytestmark = pytest.mark.usefixtures("coredump_host")

FIXED = ("setarch", "-R")  # no random addresses
LATENCY = (
    '[[rule]]\nname = "latency-{number}"\non = "latency"\n{probe}\nthreshold = "{threshold}"\n'
    'match = {{ exe = ["{program}"] }}\nlimit = {{ cooldown = "1h", by = "process" }}\n'
)
DEATH = '[[rule]]\nname = "{name}"\non = "signal"\nsignals = ["{signal}"]\nmatch = {{ exe = [{exes}] }}\n'


class Victims:
    def __init__(self, directory):
        visit = compiled("visit.c", "-O2", "-shared", "-fPIC")
        waiter = compiled("visit.c", "-O2", "-c")  # for C, whose own functions are probed
        self.c = compiled("through.c", "-O1", "-foptimize-sibling-calls", "-rdynamic", waiter)
        self.cpp = compiled("catching.cpp", "-O1", "-Wl,--no-as-needed", visit)
        self.rust = compiled("through.rs", "-Copt-level=1", f"-Clink-arg={visit}")
        self.go = compiled("through.go")
        self.holding = str(directory / "holding")  # probed like the C program, and by a rule that fires
        shutil.copy(self.c, self.holding)
        self.allocating = str(directory / "allocating")  # and its allocations are recorded
        shutil.copy(self.c, self.allocating)
        self.plain = {}
        for program in (self.c, self.cpp, self.rust, self.go, self.holding):
            self.plain[program] = str(directory / f"plain-{os.path.basename(program)}")
            shutil.copy(program, self.plain[program])
        self.directory = directory
        functions = ("escape", "handle", "forward", "descend", "serve", "work", "hold")
        self.latency = []
        for function in functions:
            self.watch(self.c, f'probe = "uprobe:{self.c}:{function}"')
        for function in functions:
            self.watch(self.allocating, f'probe = "uprobe:{self.allocating}:{function}"')
        for function in functions[:-1]:
            self.watch(self.holding, f'probe = "uprobe:{self.holding}:{function}"')
        self.watch(self.holding, f'probe = "uprobe:{self.holding}:hold"\nwhen = "deadline"', threshold="500ms")
        for function in ("parse", "handle", "request"):
            self.watch(self.cpp, f'probe = "uprobe:{self.cpp}:{function}"')
        for function in ("handle", "request"):
            self.watch(self.rust, f'probe = "uprobe:{self.rust}:{function}"')
        for program in (self.cpp, self.rust):
            self.watch(program, f'probe = "uprobe:{visit}:visit"')
        for function in ("request", "hold"):
            self.watch(self.go, f'enter = "uprobe:{self.go}:main.{function}"\nleave = "uprobe:{self.go}:main.finish"')
        self.deaths = [
            self.death("segv", self.c, self.cpp, self.rust),
            self.death("kill", self.go),
            heap_rule(self.allocating, "sizes"),
        ]
        self.rules = "\n".join([*self.deaths, *self.latency])

    def death(self, name, *programs):
        exes = ", ".join(f'"{exe}"' for program in programs for exe in (program, self.plain[program]))
        return DEATH.format(name=name, signal=f"SIG{name.upper()}", exes=exes)

    def watch(self, program, probe, threshold="1h"):
        number = len(self.latency)
        self.latency.append(LATENCY.format(number=number, probe=probe, threshold=threshold, program=program))


@pytest.fixture(scope="module")
def victims(tmp_path_factory):
    return Victims(tmp_path_factory.mktemp("victims"))


@pytest.fixture(scope="module")
def watcher(victims, tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("watcher"), rules=victims.rules, config=config("64MiB")).start()
    rules = daemon.ctl.json("status")["rules"]
    assert len(rules) == len(victims.latency) + len(victims.deaths)
    assert all(rule["state"] in ("active", "degraded") for rule in rules), rules
    yield daemon
    daemon.stop()


def script(directory):
    path = directory / "frames.py"
    path.write_text(SCRIPT)
    return path


def said_by_incidentctl(watcher, pid, directory, *options):
    return frames_of(
        subprocess.run(
            [*watcher.ctl.command, "gdb", *options, str(pid), "--", "-nx", "-batch", "-x", script(directory)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=4 * PATIENCE,
            check=False,
        )
    )


def plainly(frames):
    return [of_gdb(frame) for frame in frames]


def pending(thread):
    return [probe["address"] for probe in thread["stack"].get("return_probes", [])]


def names(thread):
    return [frame["symbol"] for frame in thread["stack"]["frames"]]


def as_told(thread):
    return [(frame["ip"], frame["symbol"], frame["inline"]) for frame in thread["stack"]["frames"]]


@pytest.mark.parametrize("language, probed", [("c", 7), ("cpp", 3), ("rust", 3)])
def test_a_death_below_probed_functions(watcher, victims, tmp_path, language, probed):
    """probed: returns that are pending; of C++ and Rust the C library's, for their own have probes at their ret."""
    program, plain = getattr(victims, language), victims.plain[getattr(victims, language)]
    expected = finish(start(*FIXED, plain, "crash"))
    died = finish(start(*FIXED, program, "crash", "probed"))
    assert died.status == expected.status < 0
    core = tmp_path / "core"
    watcher.joined_incident(expected.pid)
    without = watcher.explained_incident(expected.pid)
    watcher.ctl.text("core", expected.pid, "-o", core)
    theirs = gdb_frames(plain, core, tmp_path / "plain.py")[expected.pid]

    watcher.joined_incident(died.pid)
    incident = watcher.explained_incident(died.pid)
    assert as_told(incident.crashed) == as_told(without.crashed)
    assert not incident.crashed["stack"]["truncated"]
    assert not pending(without.crashed)
    assert len(pending(incident.crashed)) >= probed
    ours = incident.crashed["stack"]["frames"]
    assert [(int(frame["ip"], 16), frame["inline"]) for frame in ours] == [(f["pc"], f["inline"]) for f in theirs]
    if language != "rust":  # whose names gdb writes in a way of its own
        assert not differences(incident.crashed, theirs, program), names(incident.crashed)
    assert plainly(said_by_incidentctl(watcher, died.pid, tmp_path)[died.pid]) == plainly(theirs)
    assert plainly(said_by_incidentctl(watcher, died.pid, tmp_path, "--mini")[died.pid]) == plainly(theirs)
    assert incident.record["signature"] == without.record["signature"]
    assert incident.record["verdict"]["sentence"] == without.record["verdict"]["sentence"]


def asleep(pid, threads):
    tasks = os.listdir(f"/proc/{pid}/task")
    states = [open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii").read().rsplit(") ", 1)[1][0] for tid in tasks]
    return len(tasks) >= threads and set(states) == {"S"}


def frames_of_living(process, program, threads, directory):
    """tid → gdb's frames, of a process that waits."""
    until(lambda: asleep(process.pid, threads), "its threads to sleep")
    core = directory / "living"
    subprocess.run(
        ["gdb", "-nx", "-q", "-batch", "-p", str(process.pid), "-ex", f"gcore {core}"],
        capture_output=True,
        check=True,
        timeout=4 * PATIENCE,
    )
    return gdb_frames(program, core, directory / "living.py")


def comm(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as file:
        return file.read().rstrip("\n")


def test_threads_of_a_living_process_in_probed_functions(watcher, victims, tmp_path):
    plain = victims.plain[victims.holding]
    with running(*FIXED, plain, "hold", stdin=subprocess.PIPE) as process:
        theirs = frames_of_living(process, plain, 3, tmp_path)
        role = {tid: comm(process.pid, tid) if tid != process.pid else "main" for tid in theirs}
    with running(*FIXED, victims.holding, "hold", "probed", stdin=subprocess.PIPE) as process:
        incident = watcher.explained_incident(process.pid)
    assert incident.record["kind"] == "latency" and len(incident.threads) == 3
    expected = {role[tid]: frames for tid, frames in theirs.items()}
    for thread in incident.threads:
        frames = expected["main" if thread["tid"] == incident.process["pid"] else thread["comm"]]
        assert not differences(thread, frames, plain), names(thread)
        assert len(thread["stack"]["frames"]) == len(frames)
        assert len(pending(thread)) == (2 if thread["tid"] == incident.process["pid"] else 4)


def test_call_stacks_of_allocations_in_probed_functions(watcher, victims):
    process = start(*FIXED, victims.allocating, "crash", "probed", "told", stdin=subprocess.PIPE)
    until_recorded(watcher, process.pid)
    assert finish(process, b"\n").status < 0
    incident = watcher.explained_incident(process.pid)
    heap, told = Heap(incident), json.loads(incident.text("heap/frames.json"))
    (stack,) = [one for one in heap.live if one.size == 777]
    allocated = [told["frames"][at]["symbol"] for at in told["stacks"][hex(stack.stack)]["frames"]]
    died = names(incident.crashed)
    assert allocated[allocated.index("handle") :] == died[died.index("handle") :]


def test_go_whose_functions_are_probed_at_their_entries(watcher, victims, tmp_path):
    """It has no return probes: its stacks move."""
    plain, main = victims.plain[victims.go], {}
    for program, mode in ((plain, ()), (victims.go, ("probed",))):
        with running(*FIXED, program, "hold", *mode) as process:
            until_in(process, PAUSE)
            if program == plain:
                theirs = frames_of_living(process, plain, 2, tmp_path)[process.pid]
            process.kill()
            process.wait()
            main[program] = watcher.explained_incident(process.pid).thread(process.pid)
            mini = said_by_incidentctl(watcher, process.pid, tmp_path, "--mini")[process.pid]
            assert plainly(mini) == plainly(theirs)
    assert not pending(main[victims.go])
    assert as_told(main[victims.go]) == as_told(main[plain])
    called = [frame for frame in theirs if frame["pc"]]  # gdb shows what runtime.goexit would return to
    assert not differences(main[victims.go], called, plain), names(main[victims.go])
