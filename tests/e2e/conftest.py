"""Fixtures.  The programs under test come by environment: lib/programs.py."""

import fcntl
import itertools
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lib.daemon import Daemon

HERE = Path(__file__).resolve().parent
LOCK = "/run/lock/incidentd-tests.lock"
BEGAN = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true", help="skip the tests marked slow")
    parser.addoption("--soak", type=float, metavar="MINUTES", help="how long test_soak.py goes on; without it, it is skipped")
    parser.addoption("--crashes", type=int, default=24, metavar="N", help="how many crashes test_differential.py draws")
    parser.addoption("--seed", type=int, default=1, help="what it draws them by")
    parser.addoption(
        "--minutes",
        type=float,
        help="skip what has not begun after so many; begins at a file drawn by chance, so that each has its turn",
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes longer than a few seconds")
    if os.geteuid() != 0:
        pytest.exit("needs root", returncode=2)
    # A shell without job control ignores it for what it starts in the background, and so would every victim.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # Fixtures put core_pattern and the journal back, also where a time limit ends the suite.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))


def pytest_collection_modifyitems(config, items):
    if config.getoption("--minutes") is not None:
        files = list(dict.fromkeys(item.path for item in items))
        start = random.randrange(len(files))
        turn = {file: (i - start) % len(files) for i, file in enumerate(files)}
        items.sort(key=lambda item: turn[item.path])  # stable: a file's tests keep their order
    if config.getoption("--fast"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow, and --fast was given"))


def pytest_runtest_setup(item):
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - BEGAN > minutes * 60:
        pytest.skip(f"the {minutes:g} minutes for this suite are over")


@pytest.fixture(scope="session", autouse=True)
def one_suite_at_a_time():
    """core_pattern, the coredump socket and the journal are the machine's."""
    with open(LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def coredump_host():
    """systemd-coredump takes cores and a journal keeps its entries."""
    script = HERE.parent / "lib" / "host_coredump.sh"
    started = subprocess.run([script, "start"], capture_output=True, text=True, check=False)
    if started.returncode != 0:
        subprocess.run([script, "stop"], check=False)
        pytest.skip(f"no core-dump handler to be had: {started.stderr.strip()}")
    yield
    subprocess.run([script, "stop"], check=True)


@pytest.fixture
def daemon(tmp_path):
    """daemon(rules=…, config=…): a started incidentd, stopped and checked after the test."""
    daemons = []
    numbers = itertools.count()

    def make(started=True, **options):
        directory = tmp_path / f"daemon{next(numbers)}"
        directory.mkdir()
        made = Daemon(directory, **options)
        daemons.append(made)
        return made.start() if started else made

    yield make
    for one in daemons:
        one.stop()


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    """An incidentd with the plain crash rule that a module's tests share."""
    shared = Daemon(tmp_path_factory.mktemp("recorder")).start()
    yield shared
    shared.stop()
