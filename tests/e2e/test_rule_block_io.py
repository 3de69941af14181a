"""Rules about requests to disks; slow and failing ones are made in the virtual machine."""

import pytest

from lib.victims import run


def rule(more):
    return (
        f'[[rule]]\nname = "disk"\non = "block_io"\n{more}\nmatch = {{ comm = ["dd"] }}\n'
        'limit = { cooldown = "1h", by = "process" }\n'
    )


def read_directly(path):
    """A read that the page cache does not answer; None where the file system cannot."""
    ended = run("dd", f"if={path}", "of=/dev/null", "bs=4096", "count=4", "iflag=direct")
    return ended if ended.status == 0 else None


def test_a_request_and_who_asked_for_it(daemon, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(64 << 10))
    run("sync", str(file))
    watcher = daemon(rules=rule('slower_than = "1us"\nio = "read"'))
    reader = read_directly(file)
    if not reader:
        pytest.skip("this file system has no direct reads")
    incident = watcher.incident(reader.pid)
    request = incident.record["block_io"]
    assert incident.record["kind"] == "block_io"
    assert request["operation"] == "read" and request["error"] is None
    assert request["submitter_known"]
    assert request["duration_ns"] >= 1000
    assert request["bytes"] > 0 and request["device"]


def test_writes_are_not_reads(daemon, tmp_path):
    watcher = daemon(rules=rule('slower_than = "1us"\nio = "write"'))
    file = tmp_path / "file"
    file.write_bytes(bytes(64 << 10))
    run("sync", str(file))
    if not read_directly(file):
        pytest.skip("this file system has no direct reads")
    writer = run("dd", "if=/dev/zero", f"of={file}", "bs=4096", "count=4", "oflag=direct", "conv=notrunc")
    assert watcher.incident(writer.pid).record["block_io"]["operation"] == "write"
    assert len(watcher.incidents()) == 1
