"""A PostgreSQL server of one's own, Debian's build."""

import os
import pwd
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.users import open_to_others
from lib.wait import PATIENCE, until

BIN = Path("/usr/lib/postgresql/15/bin")
SERVER = str(BIN / "postgres")


def probe():
    """The function of the mission where its symbol is to be had, else the nearest one that is exported.

    exec_simple_query is static and Debian's server stripped: its name is in postgresql-15-dbgsym only.
    """
    build_id = subprocess.run(["readelf", "-n", SERVER], capture_output=True, text=True, check=True).stdout
    number = build_id.split("Build ID: ")[1].split()[0]
    debug = Path(f"/usr/lib/debug/.build-id/{number[:2]}/{number[2:]}.debug")
    return "exec_simple_query" if debug.exists() else "PortalRun"


class Postgres:
    def __init__(self, directory):
        self.directory = directory
        self.user = pwd.getpwnam("postgres")

    def as_postgres(self, *argv, **options):
        return subprocess.Popen(
            argv,
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            cwd="/",
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options,
        )

    def start_query(self, text):
        """psql running a query, its output kept."""
        return self.as_postgres(
            "psql", "-X", "-A", "-t", "-h", self.directory, "-d", "postgres", "-c", text, stdout=subprocess.PIPE
        )

    def query(self, text):
        output, _ = self.start_query(text).communicate(timeout=PATIENCE)
        return output.decode().strip()


@contextmanager
def postgres(directory, prefix=()):
    """prefix: a command that starts it."""
    if not BIN.is_dir():
        pytest.skip("postgresql-15 is not installed")
    server = Postgres(str(directory))
    os.chown(directory, server.user.pw_uid, server.user.pw_gid)
    open_to_others(directory.parent)
    data = str(directory / "data")
    assert server.as_postgres(str(BIN / "initdb"), "-D", data, "-A", "trust", "--no-sync").wait(PATIENCE) == 0
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={directory}", "-c", "fsync=off"]
    process = server.as_postgres(*prefix, SERVER, "-D", data, *options)
    try:
        until(lambda: server.query("select 1") == "1", "PostgreSQL to answer")
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE)
        shutil.rmtree(data, ignore_errors=True)
