"""Opens keep their path, flags and result."""

import errno
import json
import os
import re

import pytest

from lib.programs import victim
from lib.victims import run

READS = """
import os
fd = os.open("/etc/hostname", os.O_RDONLY)
for i in range(20000): os.pread(fd, 1, 0)
os.abort()
"""


def opens(recorder, *what):
    """Runs the opener; gives for each of its opens the raw result and the recorded event."""
    died = run(victim("opener"), *what)
    results = [int(line) for line in died.lines]
    assert len(results) == len(what)
    recorded = recorder.incident(died.pid).opens(died.pid)
    return list(zip(results, recorded[-len(what) :], strict=True))


def test_a_file_that_opens(recorder):
    ((fd, event),) = opens(recorder, "read:/etc/hostname")
    assert event["path"] == "/etc/hostname"
    assert event["ret"] == fd >= 0
    assert "O_RDONLY|O_CLOEXEC" in event["args"]


def test_a_file_that_is_made(recorder, tmp_path):
    ((fd, event),) = opens(recorder, f"create:{tmp_path}/new")
    assert event["path"] == f"{tmp_path}/new"
    assert event["ret"] == fd >= 0
    assert "O_WRONLY|O_CREAT|O_TRUNC" in event["args"]


@pytest.mark.parametrize(
    "what, error",
    [
        ("read:/no/such/file", "ENOENT"),
        ("read:/etc/hostname/x", "ENOTDIR"),
        ("create:/", "EISDIR"),
    ],
)
def test_an_open_that_fails(recorder, what, error):
    ((result, event),) = opens(recorder, what)
    assert result == -getattr(errno, error)
    assert event["path"] == what.split(":")[1]
    assert event["error"] == error


def test_relative_to_a_directory(recorder):
    died = run(victim("opener"), "in:/etc:hostname")
    directory, file = recorder.incident(died.pid).opens(died.pid)[-2:]
    assert directory["path"] == "/etc"
    assert file["path"] == "hostname"
    assert file["args"][0].startswith(str(directory["ret"]))


def test_openat2(recorder):
    ((fd, event),) = opens(recorder, "how:/etc/hostname")
    assert event["name"] == "openat2"
    assert event["path"] == "/etc/hostname"
    assert event["ret"] == fd >= 0


@pytest.mark.parametrize("name", ["with\nnewline", "with\x1b[31mescape", 'with"quote\\', "tab\there", "юникод"])
def test_hostile_paths_are_kept_and_shown_escaped(recorder, tmp_path, name):
    ((_, event),) = opens(recorder, f"create:{tmp_path}/{name}")
    assert event["path"] == f"{tmp_path}/{name}"
    shown = recorder.ctl.text("timeline")
    assert not [c for c in shown if not c.isprintable() and c not in "\n\t"]


def test_bytes_that_are_not_utf8(recorder, tmp_path):
    died = run(victim("opener"), b"create:" + os.fsencode(tmp_path) + b"/\xff\xfe")
    event = recorder.incident(died.pid).opens(died.pid)[-1]
    assert event["path"].startswith(f"{tmp_path}/")


def test_a_long_path_is_whole(recorder):
    path = "/" + "/".join(["d" * 99] * 40)  # 4000 bytes
    ((_, event),) = opens(recorder, f"read:{path}")
    assert event["path"] == path
    assert event["error"] == "ENOENT"


def test_a_path_beyond_the_limit_is_marked_cut(recorder):
    path = "/" + "/".join(["d" * 99] * 50)  # 5000 bytes
    ((_, event),) = opens(recorder, f"read:{path}")
    assert event["error"] == "ENAMETOOLONG"
    assert event["path_cut"] is True
    assert path.startswith(event["path"]) and len(event["path"]) >= 4090


def test_a_path_is_kept_as_long_as_its_call(daemon):
    """Of many calls as of few, short paths and long ones."""
    recorder = daemon()  # of many crashes alike the later ones would keep less
    paths = [f"/no/such/{n}/{'x' * (n % 250)}/{'/d' * (n % 7 * 200)}" for n in range(300)]
    died = run(victim("opener"), *[f"read:{path}" for path in paths])
    incident = recorder.incident(died.pid)
    counts = incident.accounting(died.pid)
    assert counts["overwritten"] == counts["lost"] == counts["paths_overwritten"] == counts["paths_cut"] == 0
    assert [event["path"] for event in incident.opens(died.pid)][-len(paths) :] == paths


def test_no_open_is_shown_whose_later_calls_are_not_known(daemon):
    """Another call may have closed its descriptor, and the number be another file's by now."""
    watcher = daemon(config='[record]\nthreads = 16\ncalls = "64KiB"\n')
    died = run("/usr/bin/python3", "-c", READS)
    incident = watcher.incident(died.pid)
    counts = incident.accounting(died.pid)
    assert counts["overwritten"] > 0 and counts["paths_overwritten"] > 0
    assert counts["opens_kept"] == len(incident.opens(died.pid)) == 0
    facts = [json.loads(line) for line in incident.text("facts.jsonl").splitlines()]
    assert "/etc/hostname" in {fact["what"] for fact in facts if fact["kind"] == "path"}
    (opened,) = re.findall(r"^ *opened +(.*)$", incident.text("summary.txt"), re.M)
    assert "/etc/hostname" in opened, "a fact stands in for it"
