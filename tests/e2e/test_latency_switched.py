"""Calls that are left by going over to another stack, another program, or the end of who made them: none is told as
still running, and nobody is made to dump core for it; what hangs in the same programs is."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import Daemon
from lib.victims import running
from lib.wait import PATIENCE, until
from test_latency_left import go, of, on, reason, rule, rules_of, waits_deep_down

ENDS = ["exec", "exit", "fork", "forked", "vfork", "spawned"]


def fibers(how):
    return compiled("stack_changes.c", "-O2", "-rdynamic", *{"own": ["-DOWN"], "contexts": ["-DCONTEXTS"]}.get(how, []))


def library():
    return compiled("stack_changes.c", "-O2", "-DLIBRARY", "-shared", "-fPIC")


def coroutine():
    return compiled("coroutine.cpp", "-O2", "-std=c++20", "-rdynamic")


def ends():
    return compiled("ends.c", "-O2", "-rdynamic")


DUMPS = 'dump = "SIGABRT"'


@pytest.fixture(scope="module")
def watcher(tmp_path_factory, coredump_host):
    rules = [rule(how, fibers(how), of(fibers(how), "handle"), "deadline", DUMPS) for how in ("own", "contexts", "library")]
    rules += [
        rule("coroutine", coroutine(), of(coroutine(), "handle(long)"), "deadline", DUMPS),
        rule("step", coroutine(), of(coroutine(), "step(Task&)"), "deadline", DUMPS),
        rule("ends", ends(), of(ends(), "handle"), "deadline", DUMPS),
    ]
    config = "[safety]\nallow_dump = true\ndumps_per_hour = 100\n"
    watching = Daemon(tmp_path_factory.mktemp("switched"), rules="\n".join(rules), config=config).start()
    yield watching
    watching.stop()


def children(process):
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def comes_due(watcher, stack, program, *arguments):
    """What begins now, and hangs, is told after all that began before: everything else has been looked at."""
    process = stack.enter_context(running(program, *arguments, stdin=subprocess.PIPE))
    go(process)
    assert process.wait(timeout=PATIENCE) != 0, "it hung, and was made to dump core"
    until(lambda: rules_of(watcher, process), "its incident", watcher.tail)


def left(stack, program, *arguments):
    process = stack.enter_context(running(program, *arguments, stdin=subprocess.PIPE))
    go(process)
    until(lambda: waits_deep_down(process), "it to have left")
    return process


def is_let_be(watcher, process):
    assert process.poll() is None, f"a healthy process was killed\n{watcher.tail()}"
    assert rules_of(watcher, process) == set(), watcher.tail()
    on(process)
    assert process.stdout.readline() == b"went on\n"
    assert rules_of(watcher, process) == set(), watcher.tail()


@pytest.mark.parametrize("how", ENDS)
def test_who_made_the_call_ends_or_is_doubled(watcher, how):
    with ExitStack() as stack:
        process = left(stack, ends(), how)
        born = children(process)
        assert bool(born) == (how not in ("exec", "exit"))
        comes_due(watcher, stack, ends(), "hangs")
        for pid in born:
            assert Path(f"/proc/{pid}/exe").exists(), "a healthy child was killed"
            assert not [i for i in watcher.incidents() if i.process["pid"] == pid]
        is_let_be(watcher, process)


def test_a_coroutine_that_is_suspended_is_not_running(watcher):
    with ExitStack() as stack:
        process = left(stack, coroutine(), "suspends")
        comes_due(watcher, stack, coroutine(), "hangs")
        is_let_be(watcher, process)


@pytest.mark.parametrize("how", ["own", "contexts", "library"])
def test_a_thread_that_went_over_to_another_stack(watcher, how):
    """Its call stands where it is, whole: only that the thread is elsewhere shows that it is not in it."""
    with ExitStack() as stack:
        process = left(stack, fibers(how), "leaves", library())
        comes_due(watcher, stack, ends(), "hangs")
        is_let_be(watcher, process)
    if how == "contexts":
        assert "unavailable" in reason(watcher, how) or "stack" in reason(watcher, how), reason(watcher, how)


def test_the_stack_it_is_on_is_known(watcher):
    """One that hangs on a stack of its own is told, where no code goes from one to another that anybody knows of."""
    with ExitStack() as stack:
        comes_due(watcher, stack, fibers("own"), "hangs")
