"""Every thread of a dying process is captured as it stood."""

import bisect
import signal

import pytest

from lib.programs import victim
from lib.victims import run


def siblings(sleepers, readers, spinners, how):
    died = run(victim("siblings"), str(sleepers), str(readers), str(spinners), how)
    return died, {int(tid): role for tid, role in (line.split() for line in died.lines)}


@pytest.mark.parametrize("how", ["fault", "SIGABRT", "SIGSEGV"])
def test_sleeping_blocked_and_busy_siblings(recorder, how):
    died, roles = siblings(3, 3, 2, how)
    incident = recorder.incident(died.pid)
    assert incident.tids == set(roles)
    assert incident.crashed["tid"] == died.pid
    for thread in incident.threads:
        assert int(thread["registers"]["rip"], 16) != 0
        assert int(thread["registers"]["rsp"], 16) != 0


def test_calls_in_flight(recorder):
    died, roles = siblings(2, 2, 1, "fault")
    incident = recorder.incident(died.pid)
    for tid, role in roles.items():
        call = incident.thread(tid)["syscall"]
        if role in ("futex", "read"):
            assert call["name"] == incident.calls(tid)[-1]["name"] == role
            assert call["in_flight"] or call["interrupted"]
        else:
            assert not call["in_flight"] and not call["interrupted"]


def test_blocked_threads_show_where_the_kernel_held_them(recorder):
    died, roles = siblings(1, 1, 0, "fault")
    incident = recorder.incident(died.pid)
    for tid, role in roles.items():
        if role == "futex":
            assert incident.thread(tid)["kernel_stack"]


def kernel_functions():
    """(start, name) by start: of the kernel's own text, where each reaches up to the next."""
    with open("/proc/kallsyms", encoding="ascii") as file:
        lines = (line.split() for line in file)
        return sorted((int(words[0], 16), words[2]) for words in lines if len(words) == 3 and words[1] in "tTwW")


def test_kernel_stacks_begin_at_the_function_that_was_traced(recorder):
    died, _ = siblings(2, 2, 1, "fault")
    incident = recorder.incident(died.pid)
    functions = kernel_functions()
    starts = [start for start, _ in functions]
    for thread in incident.threads:
        frames = thread["kernel_stack"]
        assert (frames[0]["symbol"] or "").startswith("get_signal+"), frames  # where signal_deliver is
        for frame in frames:
            assert not frame["symbol"].startswith(("bpf_", "__bpf_", "__traceiter_")), frames
            name, offset = frame["symbol"].split(" ")[0].split("+")
            start = int(frame["ip"], 16) - int(offset, 16)
            at = bisect.bisect_right(starts, int(frame["ip"], 16)) - 1
            assert starts[at] == start and name in {n for s, n in functions[at - 8 : at + 9] if s == start}


@pytest.mark.slow
def test_a_hundred_siblings(recorder):
    died, roles = siblings(80, 18, 2, "fault")
    incident = recorder.incident(died.pid)
    assert died.status == -signal.SIGSEGV
    assert incident.tids == set(roles)
    assert len(roles) == 101
