"""A return probe of the kernel's kills a process that switches stacks in the probed function: none stands where a process
has mapped code that does, in whatever file, and from when on."""

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from lib.compiled import PROGRAMS, compiled
from lib.victims import running
from lib.wait import until

PYTHON = str(Path("/usr/bin/python3").resolve())
GREENLETS = str(PROGRAMS / "greenlets.py")


def rule(probe, when, exe=None):
    match = f'match = {{ exe = ["{exe}"] }}\n' if exe else ""
    return f'[[rule]]\nname = "slow"\non = "latency"\nprobe = "uprobe:{probe}"\nthreshold = "5s"\nwhen = "{when}"\n{match}'


def state(watcher):
    (found,) = [one for one in watcher.ctl.json("status")["rules"] if one["name"] == "slow"]
    return f"{found['state']}: {found['reason']}"


def say(process, line=""):
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()


def greenlets(how):
    return running(PYTHON, GREENLETS, how, stdin=subprocess.PIPE)


@pytest.mark.parametrize("when", ["return", "deadline"])
@pytest.mark.parametrize("first", ["rule", "process"])
@pytest.mark.parametrize("imported", ["early", "late"])
def test_greenlets_switch_in_a_probed_library(daemon, when, first, imported):
    with ExitStack() as stack:
        if first == "process":
            process = stack.enter_context(greenlets(imported))
            assert process.stdout.readline() == b"ready\n"
        watcher = daemon(rules=rule("libsqlite3.so.0:sqlite3_step", when, PYTHON))
        if first == "rule":
            process = stack.enter_context(greenlets(imported))
            assert process.stdout.readline() == b"ready\n"
        say(process)  # one that only waits is not seen by the daemon
        assert process.stdout.readline() == b"seen\n"
        until(lambda: "no process" not in state(watcher), "its calls to be probed", watcher.tail)
        say(process)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, "a healthy process was killed"
        assert output == b"answers 1 11\n"
        assert re.search("switches stacks, so its ret instructions are probed", state(watcher))


def steps():
    return compiled("steps.c", "-O1", "-shared", "-fPIC")


@pytest.mark.parametrize("when", ["return", "deadline"])
@pytest.mark.parametrize("whose", ["everyone", "matching"])
@pytest.mark.parametrize("first", ["rule", "process"])
def test_code_that_switches_stacks_is_loaded_later(daemon, when, whose, first):
    """Its calls return to the kernel's trampoline first, and no more when what it has loaded runs."""
    switching = compiled("switching.c", "-shared", "-fPIC")
    loads = compiled("loads.c", "-O1", "-Wl,--no-as-needed", steps(), f"-Wl,-rpath,{Path(steps()).parent}")
    rules = rule(f"{steps()}:step", when, loads if whose == "matching" else None)
    with ExitStack() as stack:
        if first == "process":
            process = stack.enter_context(running(loads, switching, stdin=subprocess.PIPE))
        watcher = daemon(rules=rules)
        if first == "rule":
            process = stack.enter_context(running(loads, switching, stdin=subprocess.PIPE))
        assert process.stdout.readline() == b"ready\n"
        say(process)
        assert process.stdout.readline() == b"probed\n"
        took = process.stdout.readline().decode()
        print(took, end="", file=sys.stderr)
        assert re.fullmatch(r"loaded in \d+ us, return probes for \d+ us more\n", took)
        assert process.stdout.readline() == b"loaded\n"
        say(process)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, "a healthy process was killed"
        assert output == b"answers 11 21\n"
        assert re.search(r"degraded: .*switching\S*, which switches stacks, so its ret instructions", state(watcher))


def test_where_its_rets_are_not_known_the_function_is_let_go(daemon):
    """Its code ends in what cannot be followed: it is probed by nothing once its process switches stacks."""
    switching = compiled("switching.c", "-shared", "-fPIC")
    steps_unknown = compiled("steps.c", "-O1", "-shared", "-fPIC", "-DTABLE")
    loads = compiled("loads.c", "-O1", "-Wl,--no-as-needed", steps_unknown, f"-Wl,-rpath,{Path(steps_unknown).parent}")
    with running(loads, switching, stdin=subprocess.PIPE) as process:
        watcher = daemon(rules=rule(f"{steps_unknown}:step", "return", loads))
        assert process.stdout.readline() == b"ready\n"
        say(process)
        assert process.stdout.readline() == b"probed\n"
        process.stdout.readline()
        assert process.stdout.readline() == b"loaded\n"
        say(process)
        output, _ = process.communicate(timeout=60)
        assert (process.returncode, output) == (0, b"answers 11 21\n"), "a healthy process was killed"
        assert re.search(r"unavailable: .*which switches stacks, and .*cannot be probed instead", state(watcher))
