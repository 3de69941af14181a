"""What a bundle says most likely happened: right where it says something, and silent where it cannot know."""

import os
import re
import signal

import pytest

from lib.cgroup import inside, limited_memory
from lib.compiled import compiled
from lib.programs import victim
from lib.victims import PAUSE, run, running, until_in

pytestmark = pytest.mark.usefixtures("coredump_host")

RULE = """
[[rule]]
name = "crash"
on = "signal"
signals = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGSYS", "SIGTRAP", "SIGKILL", "SIGTERM", "SIGALRM",
           "SIGQUIT", "SIGXCPU", "SIGXFSZ"]
"""

FAULTS = {
    "null": ("null dereference", "value_of()", "at offset 0x10 of a null pointer"),
    "threads": ("null dereference", "value_of()"),
    "overflow": ("stack overflow", "overflow() calls itself"),
    "thread-overflow": ("stack overflow", "overflow() calls itself"),
    "call-null": ("jump to null: a null function pointer was called",),
    "abort": ("call_abort()", "called abort()"),
    "assert": ("assertion failed", "seven it must be"),
    "double-free": ("double free",),
    "heap": ("heap corrupted",),
    "smash": ("stack smashing", "smash()"),
    "divide": ("integer division by zero", "main()"),
    "trap": ("illegal instruction", "ud2"),
    "bus": ("a page of a mapped file", "beyond its end"),
    "unmapped": ("where nothing is mapped any more since a munmap()",),
    "run-off": ("bad address: run_off() writes 1 byte", "where nothing is mapped"),  # what happened, and not why
    "file-limit": ("a file was to grow beyond the process's limit, RLIMIT_FSIZE, of 10 bytes",),
    "report": ("null dereference: value_of()", "and died of the SIGSEGV it sent itself"),
    "read-only": ("write to read-only memory", "write_constant()"),
    "no-exec": ("not executable",),
    "text-pointer": ("no possible address", "wild()"),
    "wild": ("where nothing is mapped", "0x123456789000"),
    "seccomp": ("seccomp", "getpriority"),
    "kill-self": ("sent SIGKILL to itself",),
}


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    from lib.daemon import Daemon

    daemon = Daemon(tmp_path_factory.mktemp("watcher"), rules=RULE).start()
    yield daemon
    daemon.stop()


def verdict_of(watcher, pid):
    return watcher.explained_incident(pid).record["verdict"]


def sentence_of(watcher, pid):
    verdict = verdict_of(watcher, pid)
    return verdict["sentence"] if verdict else None


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("build", ["-O0", "-O2"])
def test_what_went_wrong_is_named(watcher, build, kind):
    died = run(compiled("faults.c", build, "-fstack-protector-strong"), kind)
    assert died.status < 0
    verdict = verdict_of(watcher, died.pid)
    assert verdict, kind
    for words in FAULTS[kind]:
        assert words in verdict["sentence"]
    assert all(claim["facts"] for claim in verdict["claims"])


def test_what_went_wrong_is_named_of_who_has_gone(watcher):
    """The daemon comes to look when /proc has nothing of them any more: what the kernel side kept is enough."""
    program = compiled("faults.c", "-O0", "-fstack-protector-strong")
    unnamed = {}
    left = list(FAULTS)
    while left:
        kinds, left = left[:6], left[6:]  # as many as find room in the ring buffer
        watcher.process.send_signal(signal.SIGSTOP)
        died = {kind: run(program, kind).pid for kind in kinds}
        watcher.process.send_signal(signal.SIGCONT)
        for kind, pid in died.items():
            sentence = sentence_of(watcher, pid) or ""
            if not all(words in sentence for words in FAULTS[kind]):
                unnamed[kind] = sentence
    assert not unnamed


def test_the_null_argument_is_named_where_debug_information_knows_it(watcher):
    died = run(compiled("faults.c", "-O0"), "null")
    assert "; its argument item is null" in sentence_of(watcher, died.pid)


@pytest.mark.parametrize(
    "kind, words",
    [
        ("runtime", ("uncaught C++ exception of type std::runtime_error", "the pool is empty")),
        ("own", ("uncaught C++ exception of type Own",)),
        ("number", ("uncaught C++ exception of type int",)),
        ("terminate", ("std::terminate() was called",)),
        ("rethrow", ("std::terminate() was called",)),  # a throw; with no exception there
    ],
)
@pytest.mark.parametrize("build", ["-O0", "-O2"])
def test_an_uncaught_exception_is_named(watcher, build, kind, words):
    died = run(compiled("throws.cpp", build), kind)
    sentence = sentence_of(watcher, died.pid)
    for word in words:
        assert word in sentence


@pytest.mark.parametrize("build", ["-O0", "-O2"])
def test_which_of_its_arguments_a_register_is_is_not_said(watcher, build):
    died = run(compiled("throws.cpp", build), "member")
    sentence = sentence_of(watcher, died.pid)
    # At -O0 the pointer to the member, which is no null pointer, is what the innermost function was given.
    assert sentence.startswith("null dereference: " if build == "-O2" else "bad address: ")
    assert "argument 2" not in sentence and "argument 1" not in sentence


@pytest.mark.parametrize("build", ["-O0", "-O2"])
def test_an_overrun_that_glibc_finds_is_no_double_free(watcher, build):
    died = run(compiled("faults.c", build), "overrun")
    verdict = verdict_of(watcher, died.pid)
    assert verdict["sentence"].startswith("heap corrupted"), verdict
    assert not any(claim["claim"].startswith("double free") for claim in verdict["claims"])


def test_the_summary_opens_with_it(watcher):
    died = run(compiled("faults.c", "-O2"), "divide")
    incident = watcher.explained_incident(died.pid)
    lines = incident.text("summary.txt").splitlines()
    assert lines[0] == incident.record["verdict"]["sentence"]
    assert lines[1].startswith("  - ")
    assert incident.record["verdict"]["sentence"] in watcher.ctl.text("info", died.pid)


def test_a_victim_of_the_oom_killer(daemon):
    watcher = daemon(rules='[[rule]]\nname = "oom"\non = "oom"\nmatch = { comm = ["trouble"] }\n')
    with limited_memory("incidentd-test-verdict", 48 << 20) as group:
        died = run(*inside(group, victim("trouble"), "threads", "5", "200"))
        verdict = verdict_of(watcher, died.pid)
    assert verdict["sentence"].startswith("out of memory: cgroup ")
    assert "incidentd-test-verdict reached its limit of 48 MiB" in verdict["sentence"]
    facts = " ".join(verdict["claims"][0]["facts"])
    assert f"largest of the 1 processes the kernel chose from: trouble[{died.pid}]" in facts
    assert "resident" in facts


def test_what_a_thread_was_blocked_on(daemon):
    watcher = daemon(rules='[[rule]]\nname = "blocked"\non = "blocked"\nthreshold = "100ms"\n')
    ended = run(victim("trouble"), "pipe", "400")
    sentence = sentence_of(watcher, ended.pid)
    assert re.search(r"^thread \d+ was blocked for \d+.* in read\(\), until writer\[\d+\] woke it$", sentence)


def test_a_register_that_a_part_kept_elsewhere_has_set_is_no_argument(watcher):
    ended = run(compiled("seldom.c", "-O2"))
    (claim,) = verdict_of(watcher, ended.pid)["claims"]
    assert claim["claim"].startswith("null dereference: read_it() reads 4 bytes at a null pointer")
    assert "entered" not in claim["claim"] + " ".join(claim["facts"]), claim


def test_one_that_was_stopped_waits_for_no_page(daemon):
    watcher = daemon(rules='[[rule]]\nname = "blocked"\non = "blocked"\nthreshold = "500ms"\nwhen = "deadline"\n')
    with running(compiled("busy.c", "-O1"), "calls") as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        sentence = sentence_of(watcher, process.pid)
    assert re.search(r"^thread \d+ has been blocked for \d+.* in a stop \(SIGSTOP", sentence), sentence


def killed_from_outside(number):
    with running(compiled("faults.c", "-O2"), "sleep") as process:
        until_in(process, PAUSE)
        os.kill(process.pid, number)
        process.wait()
        return process.pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE])
def test_who_killed_it_is_named_and_nothing_else_claimed(watcher, number):
    verdict = verdict_of(watcher, killed_from_outside(number))
    assert f"[{os.getpid()}], which sent it {signal.Signals(number).name}" in verdict["sentence"]
    assert len(verdict["claims"]) == 1


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"])
def test_a_signal_it_sends_itself_is_no_fault(watcher, name):
    died = run(compiled("faults.c", "-O2"), "kill-self", str(int(signal.Signals[name])))
    assert sentence_of(watcher, died.pid) == f"it sent {name} to itself"


@pytest.mark.parametrize(
    "argv",
    [
        ("perl", "-e", "alarm 1; sleep 60"),
    ],
)
def test_where_nothing_can_be_known_nothing_is_said(watcher, argv):
    died = run(*argv)
    assert died.status < 0
    assert verdict_of(watcher, died.pid) is None


def test_cpu_time(watcher):
    died = run("python3", "-c", "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 5))\nwhile True: pass")
    assert sentence_of(watcher, died.pid) == "it has used up the CPU time of its limit, RLIMIT_CPU"


def test_a_breakpoint(watcher):
    """Whether a compiler's or what a debugger has left behind is not known."""
    died = run(compiled("faults.c", "-O2"), "int3")
    assert sentence_of(watcher, died.pid).startswith("breakpoint: main() came to int3, which compilers and debuggers put")
