"""Fixtures.  What is tested comes by environment: lib/programs.py."""

import os

import pytest


def pytest_configure(config):
    if os.geteuid() != 0:
        pytest.exit("needs root: packages are installed, in a root directory of their own", returncode=2)
