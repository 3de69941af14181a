"""What must not make an incident."""

import subprocess

import pytest

from lib.programs import victim
from lib.victims import run


def assert_nothing_of(recorder, exe):
    """No incident of exe, judged when a later death has become one: events keep their order."""
    later = run(victim("die"), "null-read")
    recorder.incident(later.pid)
    assert [i.id for i in recorder.incidents() if i.process["exe"] == exe] == []


def test_a_program_that_handles_its_faults(recorder):
    assert run(victim("handled"), "segv", "100").status == 0
    assert_nothing_of(recorder, victim("handled"))


def test_a_program_that_ignores_the_signal(recorder):
    assert run(victim("handled"), "ignore", "SIGABRT").status == 0
    assert_nothing_of(recorder, victim("handled"))


def test_stress_ng_handling_thousands_of_faults(recorder):
    subprocess.run(["stress-ng", "--sigsegv", "1", "--sigsegv-ops", "5000"], capture_output=True, check=True)
    assert_nothing_of(recorder, "/usr/bin/stress-ng")


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL", "SIGUSR1"])
def test_a_fatal_signal_no_rule_names(recorder, signal):
    died = run("sh", "-c", f"kill -{signal.removeprefix('SIG')} $$")
    assert died.status < 0
    later = run(victim("die"), "null-read")
    recorder.incident(later.pid)
    assert died.pid not in [i.process["pid"] for i in recorder.incidents()]
