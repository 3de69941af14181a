"""What looks like something else is not told as that: the verdict, names and frames rest on what leaves no other reading."""

import re
import signal

import pytest

from lib.compiled import compiled
from lib.victims import run

pytestmark = pytest.mark.usefixtures("coredump_host")

RULE = """
[[rule]]
name = "crash"
on = "signal"
signals = ["SIGSEGV", "SIGABRT", "SIGXFSZ"]
"""


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    from lib.daemon import Daemon

    daemon = Daemon(tmp_path_factory.mktemp("watcher"), rules=RULE).start()
    yield daemon
    daemon.stop()


def explained(watcher, program, *arguments):
    died = run(program, *arguments)
    assert died.status < 0, died
    return watcher.explained_incident(died.pid)


def sentence(incident):
    verdict = incident.record["verdict"]
    return verdict["sentence"] if verdict else ""


def names(thread):
    return [frame["symbol"] for frame in thread["stack"]["frames"]]


def looks_like():
    return compiled("looks_like.c", "-O0")


def test_an_overrun_is_no_double_free(watcher):
    incident = explained(watcher, looks_like(), "overrun")
    assert incident.signal["name"] == "SIGABRT"
    said = str(incident.record["verdict"])
    assert "freed again" not in said and not sentence(incident).startswith("double free")
    assert sentence(incident).startswith("heap corrupted")


def test_a_copy_beyond_its_page_is_no_use_of_what_was_unmapped(watcher):
    incident = explained(watcher, looks_like(), "overcopy")
    assert "use after" not in str(incident.record["verdict"])
    assert sentence(incident).startswith("bad address: ")


def test_the_kernels_own_signal_is_not_sent_by_the_process(watcher):
    incident = explained(watcher, looks_like(), "file-limit")
    assert incident.signal["name"] == "SIGXFSZ"
    assert "itself" not in str(incident.record["verdict"])
    assert sentence(incident) == "a file was to grow beyond the process's limit, RLIMIT_FSIZE, of 10 bytes"
    assert "by its own thread" not in watcher.ctl.text("info", incident.process["pid"])


def test_a_fault_that_a_handler_raises_again_is_what_is_explained(watcher):
    incident = explained(watcher, looks_like(), "raised-again")
    assert not sentence(incident).startswith("it sent SIGSEGV to itself")
    assert sentence(incident).startswith("write to read-only memory: store()")


@pytest.mark.parametrize("build", ["-O0", "-O2"])
def test_this_is_not_an_argument_by_number(watcher, build):
    """Only the debug information knows which argument is in which register, and `this` is none that is written."""
    incident = explained(watcher, compiled("this.cpp", build))
    assert sentence(incident)
    assert not re.search(r"argument \d", sentence(incident))


def test_an_address_that_was_written_down_is_no_null_pointer(watcher):
    incident = explained(watcher, compiled("literal.rs", "-O"))
    assert "null" not in sentence(incident)
    assert "at 0x8" in sentence(incident)


def test_data_has_no_functions_name(watcher):
    incident = explained(watcher, looks_like(), "data")
    top, *callers = incident.crashed["stack"]["frames"]
    assert top["symbol"] is None or not re.search(r"_fini|\+0x", top["symbol"]), top
    assert "_fini" not in watcher.ctl.text("info", incident.process["pid"])
    assert "jump_to_data" in [frame["symbol"] for frame in callers]


def test_a_stack_of_its_own_does_not_go_on_in_mains(watcher):
    incident = explained(watcher, looks_like(), "context")
    shown = names(incident.crashed)
    assert shown[:2] == ["store", "in_context"]
    assert not {"main", "switch_stack"} & set(shown), shown


def test_frames_of_a_deleted_library_are_not_passed_over(watcher, tmp_path):
    library = compiled("deleted.c", "-O2", "-shared", "-fPIC")
    path = tmp_path / "libdeleted.so"
    path.write_bytes(open(library, "rb").read())
    incident = explained(watcher, looks_like(), "deleted", str(path))
    frames = incident.crashed["stack"]["frames"]
    assert "libdeleted.so" in str(frames[0]["module"])
    # either its two frames are there, or it is said that the stack is not whole
    whole = not incident.crashed["stack"]["truncated"]
    assert not whole or sum("libdeleted.so" in str(frame["module"]) for frame in frames) == 2, frames
    assert whole or "call_library" not in names(incident.crashed), frames


@pytest.mark.parametrize("how", ["vfork", "clone"])
def test_a_child_that_shares_its_parents_memory_has_its_thread(watcher, how):
    parent = run(looks_like(), how)
    assert parent.status == 0
    incident = watcher.incident_of_child(parent.pid)
    assert incident.signal["number"] == signal.SIGSEGV
    assert incident.quality["threads_captured"] == incident.quality["threads"] == 1
