"""A call is told as running, or as slow, only where it provably is: functions that are left without a return."""

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import Daemon
from lib.victims import running
from lib.wait import until

THRESHOLD_NS = 300_000_000

def goroutines():
    return compiled("goroutines.go"), compiled("goroutines.go", "-trimpath")


def fibers():
    return compiled("fibers.c", "-O1")


def own_jumps():
    return compiled("own_jumps.c", "-O1", "-fno-omit-frame-pointer")


LEFT = ["throw", "rethrow", "cleanup", "longjmp", "handler", "exit_thread", "cancelled"]
HANGING = ["caught", "hangs"]


def rule(name, program, what, when="return", more=""):
    return (
        f'[[rule]]\nname = "{name}"\non = "latency"\n{what}\nthreshold = "{THRESHOLD_NS // 1_000_000}ms"\n'
        f'when = "{when}"\nmatch = {{ exe = ["{program}"] }}\n{more}\n'
    )


def of(program, symbol):
    return f'probe = "uprobe:{program}:{symbol}"'


def go_pair(program):
    """From the entry of Handle to its one ret."""
    command = ["objdump", "-d", "--no-show-raw-insn", "--disassemble=main.Handle", program]
    code = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    addresses = re.findall(r"^ *([0-9a-f]+):\s+(\S+)", code, re.MULTILINE)
    entry = int(addresses[0][0], 16)
    (leave,) = [int(address, 16) for address, name in addresses if name.startswith("ret")]
    return f'enter = "uprobe:{program}:main.Handle"\nleave = "uprobe:{program}:main.Handle+{leave - entry}"'


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    leaves, jumps = compiled("leaves.cpp", "-O2", "-rdynamic"), compiled("jumps.c", "-O2", "-rdynamic")
    panics, (unpaired, paired) = compiled("panics.rs", "-O"), goroutines()
    rules = [
        rule("stuck", leaves, of(leaves, "handle(long)"), "deadline", 'dump = "SIGABRT"'),
        rule("slow", leaves, of(leaves, "_Z6handlel")),
        rule("jump-stuck", jumps, of(jumps, "handle"), "deadline"),
        rule("jump-slow", jumps, of(jumps, "handle")),
        rule("panic-stuck", panics, of(panics, "handle"), "deadline"),
        rule("own-jump-stuck", own_jumps(), of(own_jumps(), "handle"), "deadline", 'dump = "SIGABRT"'),
        rule("fiber-slow", fibers(), of(fibers(), "work")),
        rule("go-slow", unpaired, of(unpaired, "main.Handle")),
        rule("go-pair", paired, go_pair(paired)),
        rule("go-stuck", unpaired, of(unpaired, "main.Handle"), "deadline"),
    ]
    directory = tmp_path_factory.mktemp("left")
    watching = Daemon(directory, rules="\n".join(rules), config="[safety]\nallow_dump = true\n").start()
    yield watching
    watching.stop()


def reason(watcher, name):
    (found,) = [r for r in watcher.ctl.json("status")["rules"] if r["name"] == name]
    return f"{found['state']}: {found['reason']}"


def waits_deep_down(process):
    """One of its threads reads its standard input: it does nothing else then."""
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        try:
            if (task / "syscall").read_text().startswith("0 0x0 "):
                return True
        except OSError:
            pass  # a thread that has ended
    return False


def go(process):
    assert process.stdout.readline() == b"ready\n"
    on(process)


def on(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def victims(stack, program, *ways):
    made = [stack.enter_context(running(program, *way.split(), stdin=subprocess.PIPE)) for way in ways]
    for process in made:
        go(process)
    return made


def rules_of(watcher, process):
    return {i.record["rule"] for i in watcher.incidents() if i.process["pid"] == process.pid}


def test_what_is_left_is_not_running_and_what_hangs_is(watcher, coredump_host):
    leaves, jumps = compiled("leaves.cpp", "-O2", "-rdynamic"), compiled("jumps.c", "-O2", "-rdynamic")
    panics = compiled("panics.rs", "-O")
    with ExitStack() as stack:
        left = victims(stack, leaves, *LEFT) + victims(stack, jumps, "") + victims(stack, panics, "")
        for process in left:
            until(lambda one=process: waits_deep_down(one), "it to have left", watcher.tail)
        # what begins now comes due after everything that was left
        hanging = victims(stack, leaves, *HANGING)
        (panicked,) = victims(stack, panics, "hangs")
        for process in hanging:
            assert process.wait(timeout=60) != 0, "it hung, and was made to dump core"
            until(lambda one=process: rules_of(watcher, one) == {"stuck"}, "its incident", watcher.tail)
        until(lambda: rules_of(watcher, panicked) == {"panic-stuck"}, "its incident", watcher.tail)
        for process in left:
            assert process.poll() is None, "a healthy process was killed"
            on(process)
            assert process.stdout.readline() == b"went on\n"
        (slow,) = victims(stack, leaves, "slowly")  # a call that is long, and over
        until(lambda: "stuck" in rules_of(watcher, slow), "its incident", watcher.tail)
        for process in left:
            assert rules_of(watcher, process) == set(), watcher.tail()
    for name in ("stuck", "slow", "jump-stuck", "panic-stuck"):
        assert re.search(r"\d+ calls were left by an exception or longjmp: not timed", reason(watcher, name)), reason(
            watcher, name
        )


def test_where_jumps_cannot_be_followed_nothing_is_told(watcher, coredump_host):
    """It left the call by __builtin_longjmp: no function's entry is passed, and the return address is still there."""
    with ExitStack() as stack:
        (left,) = victims(stack, own_jumps(), "")
        assert "unavailable: calls of a program that switches stacks are told when they return" in reason(
            watcher, "own-jump-stuck"
        )
        until(lambda: waits_deep_down(left), "it to have left", watcher.tail)
        victims(stack, compiled("leaves.cpp", "-O2", "-rdynamic"), "hangs")[0].wait(timeout=60)  # due after it
        assert left.poll() is None, "a healthy process was killed"
        assert rules_of(watcher, left) == set(), watcher.tail()
        on(left)
        assert left.stdout.readline() == b"went on\n"


def test_coroutines_of_a_programs_own_return_where_they_came_from(watcher):
    """With the kernel's return probes they would go on in another's caller: the program would be killed."""
    with running(fibers(), stdin=subprocess.PIPE) as process:
        go(process)
        assert process.stdout.readline() == b"went on\n"
        assert process.wait(timeout=60) == 0, "a healthy process was killed"


@pytest.mark.parametrize("which, name", [(0, "go-slow"), (1, "go-pair")])
def test_goroutines_are_told_by_their_own_clock(watcher, which, name):
    assert "unavailable: calls of a program in Go are told when they return" in reason(watcher, "go-stuck")
    with running(goroutines()[which], stdin=subprocess.PIPE) as process:

        def told():
            latencies = [i.record["latency"] for i in watcher.incidents() if i.process["pid"] == process.pid]
            assert all(one["elapsed_ns"] >= THRESHOLD_NS for one in latencies)
            assert all(one["spent"] is None for one in latencies), "a thread's account is not a goroutine's"
            return [int(one["args"][0], 16) for one in latencies]

        go(process)
        slow = []
        for line in iter(process.stdout.readline, b"done\n"):
            slow.append(int(line.split()[1]))
            until(lambda: slow[-1] in told(), "the slow call to be told", watcher.tail)
            on(process)
        assert len(slow) >= 4
        assert sorted(told()) == sorted(slow)
    assert "without a return" in reason(watcher, name), "those that panicked"
