"""What becomes of the core of a process that crashes: one setting for the whole machine, put back afterwards."""

import fcntl
import subprocess
from contextlib import contextmanager
from pathlib import Path

LOCK = "/run/lock/incidentd-tests.lock"
PATTERN = Path("/proc/sys/kernel/core_pattern")
HOST_COREDUMP = Path(__file__).resolve().parents[2] / "lib/host_coredump.sh"


@contextmanager
def machine_to_ourselves():
    """As the tests do: core_pattern, the coredump socket and the journal are the machine's."""
    with open(LOCK, "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for {LOCK}: a test runs", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def core_pattern(text):
    before = PATTERN.read_text(encoding="utf-8")
    PATTERN.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        PATTERN.write_text(before, encoding="utf-8")


@contextmanager
def no_cores():
    """No handler; and the crashing programs, having RLIMIT_CORE 0, leave no file."""
    with core_pattern("core"):
        yield


@contextmanager
def systemd_coredump():
    """It takes all cores; CalledProcessError where it cannot be had."""
    try:
        subprocess.run([HOST_COREDUMP, "start"], check=True, stdout=subprocess.DEVNULL)
        yield
    finally:
        subprocess.run([HOST_COREDUMP, "stop"], check=True, stdout=subprocess.DEVNULL)


def remove_cores(comm):
    """Those that systemd-coredump has stored of programs of that name."""
    for core in Path("/var/lib/systemd/coredump").glob(f"core.{comm}.*"):
        core.unlink(missing_ok=True)
