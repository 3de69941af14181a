"""A machine that lacks something hears which thing, in one clear line."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lib.daemon import SANITIZER_REPORT
from lib.programs import INCIDENTD, victim
from lib.users import open_to_others
from lib.victims import run
from lib.wait import PATIENCE

NOBODY = 65534


def run_to_its_end(command, **options):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False, **options
    )
    assert not SANITIZER_REPORT.search(done.stderr), done.stderr
    return done


def lines(done):
    return (done.stdout + done.stderr).strip().splitlines()


def without(directory):
    """A command prefix: in a mount namespace where the directory is empty."""
    if not Path(directory).is_dir():
        pytest.skip(f"{directory} is not there to be hidden")
    return ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {directory} && exec "$@"', "sh")


def incidentd(daemon, prefix=(), **options):
    return run_to_its_end([*prefix, *daemon(started=False, **options).command, "--foreground"])


def test_not_root(tmp_path):
    open_to_others(tmp_path)
    binary = shutil.copy(INCIDENTD, tmp_path / "incidentd")
    done = run_to_its_end([binary, "--foreground", "--state", "/tmp/none"], user=NOBODY, group=NOBODY, cwd="/")
    assert done.returncode == 1
    (line,) = lines(done)
    assert "root" in line


def test_no_kernel_type_information(daemon):
    if Path(f"/boot/vmlinux-{os.uname().release}").exists():
        pytest.skip("libbpf would find the types in /boot")
    done = incidentd(daemon, prefix=without("/sys/kernel/btf"))
    assert done.returncode == 1
    (line,) = lines(done)
    assert "/sys/kernel/btf/vmlinux" in line


def test_tracefs_is_not_needed(daemon):
    watcher = daemon(prefix=without("/sys/kernel/tracing"))
    watcher.incident(run(victim("die"), "null-read").pid)


def test_tracefs_is_mounted_for_a_rule_that_needs_it(daemon):
    watcher = daemon(rules='[[rule]]\nname = "oom"\non = "oom"\n', prefix=without("/sys/kernel/tracing"))
    (oom,) = watcher.ctl.json("status")["rules"]
    assert oom["state"] == "active", oom


def test_a_state_directory_that_cannot_be_made(daemon, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    blocked = daemon(started=False)
    blocked.state = tmp_path / "file" / "state"
    done = run_to_its_end([*blocked.command, "--foreground"])
    assert done.returncode == 1
    (line,) = lines(done)
    assert f"{tmp_path}/file" in line


def test_more_memory_than_allowed(daemon):
    done = incidentd(daemon, config='[record]\nthreads = 65536\ncalls = "512MiB"\nmemory_limit = "64MiB"\n')
    assert done.returncode == 1
    assert "memory_limit" in "".join(lines(done))


def test_a_second_daemon_on_the_same_state(daemon):
    first = daemon()
    second = run_to_its_end([*first.command, "--foreground"])
    assert second.returncode == 1
    (line,) = lines(second)
    assert str(first.state) in line


def test_check_of_good_files(daemon):
    done = daemon(started=False).check()
    assert done.returncode == 0, done.stderr


BAD_RULES = """
[[rule]]
name = "crash"
on = "signal"
singals = ["SIGSEGV"]

[[rule]]
name = "other"
on = "signal"
signals = ["SIGNONE"]
"""


def test_check_says_everything_that_is_wrong(daemon):
    done = daemon(started=False, rules=BAD_RULES).check()
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "test.toml:5:1" in said
    assert "singals" in said and "signals" in said
    assert "test.toml:10:12" in said
    assert "SIGNONE" in said
    assert "^" in said


def test_check_of_a_bad_configuration(daemon):
    done = daemon(started=False, config='[record]\nthreads = "many"\n').check()
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "incidentd.toml:2:" in said


def test_a_bad_rule_does_not_take_the_good_ones_down(daemon):
    good = '[[rule]]\nname = "good"\non = "signal"\nsignals = ["SIGSEGV"]\n'
    status = daemon(rules=BAD_RULES + good).ctl.json("status")
    assert "good" in [rule["name"] for rule in status["rules"]]


@pytest.mark.parametrize("option", ["--bogus", "--state"])
def test_wrong_usage(option):
    done = run_to_its_end([INCIDENTD, option])
    assert done.returncode == 2
    assert option in done.stderr


def test_help_and_version():
    assert "--rules" in run_to_its_end([INCIDENTD, "--help"]).stdout
    assert "incidentd" in run_to_its_end([INCIDENTD, "--version"]).stdout
