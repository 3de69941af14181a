"""Each way to die by a fatal signal is named for what it is."""

import pytest

from lib.programs import victim
from lib.victims import run


@pytest.mark.parametrize(
    "kind, name, code",
    [
        ("null-read", "SIGSEGV", "SEGV_MAPERR"),
        ("null-write", "SIGSEGV", "SEGV_MAPERR"),
        ("null-jump", "SIGSEGV", "SEGV_MAPERR"),
        ("read-only", "SIGSEGV", "SEGV_ACCERR"),
        ("stack-overflow", "SIGSEGV", "SEGV_MAPERR"),
        ("bus", "SIGBUS", "BUS_ADRERR"),
        ("fpe", "SIGFPE", "FPE_INTDIV"),
        ("ill", "SIGILL", "ILL_ILLOPN"),
        ("abort", "SIGABRT", "SI_TKILL"),
        ("sys", "SIGSYS", "SYS_SECCOMP"),
    ],
)
def test_a_death(recorder, kind, name, code):
    died = run(victim("die"), kind)
    incident = recorder.incident(died.pid)
    assert incident.process["exe"] == victim("die")
    assert incident.signal["name"] == name
    assert incident.signal["code_name"] == code
    for line in died.lines:
        assert int(incident.signal["address"], 16) == int(line.removeprefix("address "), 16)


def test_a_handler_that_works_only_once(recorder):
    """The first signal is handled; the second, to the default disposition again, kills."""
    died = run(victim("handled"), "once", "SIGSEGV")
    incident = recorder.incident(died.pid)
    assert [event["name"] for event in incident.events("signal")].count("SIGSEGV") >= 2
    assert incident.signal["sender"]["pid"] == died.pid
