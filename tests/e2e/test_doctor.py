"""incidentctl doctor: what is broken for real turns its line, and mending it turns it back."""

import json
import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from lib.ctl import Ctl
from lib.daemon import CRASH_RULE, SANITIZER_REPORT
from lib.programs import INCIDENTCTL, victim
from lib.users import open_to_others
from lib.victims import waiting_victim
from lib.wait import until

NOBODY = 65534
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
STATES = ("ok", "note", "unknown", "warn", "bad")


class Doctor:
    """The doctor asked about one daemon."""

    def __init__(self, daemon, ctl=None):
        self.options = ["doctor", "--config", daemon.config, "--rules", daemon.rules]
        self.ctl = ctl or daemon.ctl

    def ask(self, **options):
        done = self.ctl.run("--json", *self.options, **options)
        assert not SANITIZER_REPORT.search(done.stderr), done.stderr
        document = json.loads(done.stdout)
        anything_bad = any(check["state"] == "bad" for check in document["checks"])
        assert done.returncode == (1 if anything_bad else 0)
        return document

    def lines(self, group, name, **options):
        return [c for c in self.ask(**options)["checks"] if (c["group"], c["name"]) == (group, name)]

    def line(self, group, name, **options):
        """Of a check that has one thing to say."""
        (line,) = self.lines(group, name, **options)
        return line

    def state(self, group, name):
        return self.line(group, name)["state"]


def rule_about(exe):
    return f'[[rule]]\nname = "named"\non = "signal"\nmatch = {{ exe = ["{exe}"] }}\n'


@pytest.fixture
def sleeper(tmp_path):
    """sleeper(core_limit): a running program of the test's own, and its path."""
    started = []
    program = tmp_path / "sleeper"
    shutil.copy(shutil.which("sleep"), program)

    def start(core_limit=resource.RLIM_INFINITY):
        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (core_limit, resource.RLIM_INFINITY))

        started.append(subprocess.Popen([program, "600"], preexec_fn=limit))
        until(lambda: os.readlink(f"/proc/{started[-1].pid}/exe") == str(program), "the sleeper to run")
        return started[-1]

    start.program = program
    yield start
    for process in started:
        process.kill()
        process.wait()


def test_every_check_says_something(recorder):
    document = Doctor(recorder).ask()
    assert sum(document["counts"].values()) == len(document["checks"])
    for check in document["checks"]:
        assert set(check) == {"group", "name", "state", "fact", "why", "fix"}
        assert check["state"] in STATES
        assert check["fact"]
        if check["state"] in ("ok", "note"):
            assert check["fix"] == "", check
        if check["state"] == "bad":
            assert check["why"], check
    assert len({check["group"] for check in document["checks"]}) == 8


def test_the_page_has_the_same_lines(recorder):
    doctor = Doctor(recorder)
    page = doctor.ctl.run(*doctor.options).stdout
    assert page.count("\n  OK     ") == doctor.ask()["counts"]["ok"]
    assert "\x1b" not in page


def test_running_or_not(daemon):
    one = daemon()
    doctor = Doctor(one)
    assert doctor.line("incidentd", "running")["fact"].endswith(f", pid {one.process.pid}")
    assert doctor.state("rules", "states") == "ok"
    one.stop()
    line = doctor.line("incidentd", "running")
    assert line["state"] == "bad" and "not running" in line["fact"] and "systemctl" in line["fix"]
    assert doctor.state("rules", "states") == "unknown"
    one.start()
    assert doctor.state("incidentd", "running") == "ok"


def test_a_rule_that_cannot_work(daemon):
    absent = CRASH_RULE + (
        '[[rule]]\nname = "absent"\non = "latency"\nprobe = "uprobe:/nowhere/program:function"\nthreshold = "1s"\n'
    )
    one = daemon(rules=absent)
    doctor = Doctor(one)
    line = doctor.line("rules", "states")
    assert line["state"] == "bad"
    assert "absent is unavailable" in line["fact"] and "/nowhere/program" in line["fact"]
    assert str(one.rules / "test.toml") in line["fix"]

    (one.rules / "test.toml").write_text(CRASH_RULE)
    one.process.send_signal(1)  # SIGHUP
    until(lambda: doctor.state("rules", "states") == "ok", "the mended rules to be loaded", one.tail)


def test_rules_that_were_edited_and_not_loaded(daemon):
    one = daemon()
    doctor = Doctor(one)
    assert doctor.state("rules", "loaded") == "ok"
    (one.rules / "new.toml").write_text('[[rule]]\nname = "new"\non = "oom"\n')
    line = doctor.line("rules", "loaded")
    assert line["state"] == "warn" and "new" in line["fact"] and "reload" in line["fix"]
    one.process.send_signal(1)
    until(lambda: doctor.state("rules", "loaded") == "ok", "the new rule to be loaded", one.tail)


def test_the_running_one_is_asked_where_its_rules_are(daemon):
    """Nobody who asks for a doctor types in again what incidentd was started with."""
    doctor = Doctor(daemon())
    doctor.options = ["doctor"]
    line = doctor.line("rules", "files")
    assert (line["state"], line["fact"]) == ("ok", "1 rule, 1 enabled")


def test_a_mistake_in_a_rule(daemon):
    one = daemon(started=False)
    (one.rules / "bad.toml").write_text('[[rule]]\nname = "b"\non = "sginal"\n')
    line = Doctor(one).line("rules", "files")
    assert line["state"] == "bad" and "bad.toml:3:" in line["fact"]
    (one.rules / "bad.toml").unlink()
    assert Doctor(one).state("rules", "files") == "ok"


def test_a_rule_about_what_does_not_run(daemon, sleeper):
    one = daemon(started=False, rules=rule_about(sleeper.program))
    doctor = Doctor(one)
    lines = doctor.lines("programs", "matched")
    assert any(line["state"] == "warn" and "no process runs that rule named is about" in line["fact"] for line in lines)
    sleeper()
    lines = doctor.lines("programs", "matched")
    assert not [line for line in lines if line["state"] == "warn"]
    assert any("1 of them named" in line["fact"] for line in lines)


def test_a_process_that_may_not_dump(daemon, sleeper, coredump_host):
    """RLIMIT_CORE 1 keeps a handler from getting a core, whatever the pattern."""
    process = sleeper(core_limit=1)
    doctor = Doctor(daemon(started=False, rules=rule_about(sleeper.program)))
    line = doctor.line("cores", "RLIMIT_CORE")
    assert line["state"] == "bad"
    assert f"sleeper[{process.pid}]" in line["fact"] and "RLIMIT_CORE is 1" in line["fact"]
    mend = [command for command in line["fix"].splitlines() if command.startswith("prlimit ")]
    assert len(mend) == 1
    subprocess.run(mend[0], shell=True, check=True)
    assert doctor.state("cores", "RLIMIT_CORE") == "ok"


def test_a_limit_of_zero_counts_where_the_pattern_passes_it_on(daemon, sleeper, coredump_host):
    sleeper(core_limit=0)
    doctor = Doctor(daemon(started=False, rules=rule_about(sleeper.program)))
    before = CORE_PATTERN.read_text()
    if "%c" in before:
        pytest.skip("the pattern passes the limit on already")
    assert doctor.state("cores", "RLIMIT_CORE") == "ok"
    try:
        CORE_PATTERN.write_text("|/lib/systemd/systemd-coredump %P %u %g %s %t %c %h")
        line = doctor.line("cores", "RLIMIT_CORE")
        assert line["state"] == "bad" and "RLIMIT_CORE is 0" in line["fact"]
        assert doctor.state("cores", "core_pattern") == "ok"
    finally:
        CORE_PATTERN.write_text(before)
    assert doctor.state("cores", "RLIMIT_CORE") == "ok"


def test_a_filter_that_leaves_nothing(daemon, sleeper):
    process = sleeper()
    doctor = Doctor(daemon(started=False, rules=rule_about(sleeper.program)))
    assert doctor.state("cores", "coredump_filter") == "ok"
    Path(f"/proc/{process.pid}/coredump_filter").write_text("0")
    line = doctor.line("cores", "coredump_filter")
    assert line["state"] == "bad" and f"sleeper[{process.pid}]" in line["fact"]
    subprocess.run(line["fix"], shell=True, check=True)
    assert doctor.state("cores", "coredump_filter") == "ok"


def test_core_pattern(daemon, coredump_host):
    doctor = Doctor(daemon(started=False))
    assert doctor.state("cores", "core_pattern") == "ok"
    before = CORE_PATTERN.read_text()
    try:
        CORE_PATTERN.write_text("core")
        line = doctor.line("cores", "core_pattern")
        assert line["state"] == "bad" and "writes cores to files" in line["fact"]
    finally:
        CORE_PATTERN.write_text(before)
    assert doctor.state("cores", "core_pattern") == "ok"
    assert doctor.state("cores", "socket") == "ok"
    assert doctor.state("journal", "journald") == "ok"


def test_nobody_takes_the_cores(daemon, coredump_host):
    doctor = Doctor(daemon(started=False))
    assert doctor.state("cores", "socket") == "ok"
    assert doctor.state("journal", "journald") == "ok"
    # A pid namespace whose first process is in a network namespace without sockets.
    doctor.ctl = Ctl("/nowhere", prefix=("unshare", "--pid", "--fork", "--mount-proc", "--net"))
    assert doctor.state("cores", "socket") == "bad"
    assert doctor.state("journal", "journald") == "bad"


def test_a_program_replaced_while_it_runs(daemon, sleeper):
    sleeper()
    doctor = Doctor(daemon(started=False, rules=rule_about(sleeper.program)))
    assert doctor.state("programs", "replaced") == "ok"
    shutil.copy(sleeper.program, sleeper.program.parent / "new")
    (sleeper.program.parent / "new").rename(sleeper.program)
    line = doctor.line("programs", "replaced")
    assert line["state"] == "warn" and str(sleeper.program) in line["fact"]
    sleeper()  # the new program, beside the old one
    assert doctor.line("programs", "replaced")["fact"] == line["fact"]


def test_debug_info_of_watched_programs(daemon, sleeper):
    """A victim has its own; of a copy of sleep(1) nobody has any."""
    with waiting_victim("null-read"):
        line = Doctor(daemon(started=False, rules=rule_about(victim("die")))).lines("programs", "debug info")[0]
        assert (line["state"], line["fact"]) == ("ok", "for all of 1 watched program")
    sleeper()
    doctor = Doctor(daemon(started=False, rules=rule_about(sleeper.program)))
    line = doctor.lines("programs", "debug info")[0]
    if line["state"] == "ok":
        pytest.skip("coreutils' debug symbols are installed here")
    assert line["state"] == "warn" and str(sleeper.program) in line["fact"]
    assert "DEBUGINFOD_URLS=" in line["fix"], "no package has this copy"
    assert doctor.state("programs", "unwind tables") == "ok"


def test_a_state_directory_others_may_enter(daemon):
    one = daemon()
    doctor = Doctor(one)
    assert doctor.state("incidentd", "state") == "ok"
    one.state.chmod(0o755)
    assert doctor.state("incidentd", "state") == "ok", "nothing in it can be read"
    (one.state / "incidents").chmod(0o755)
    line = doctor.line("incidentd", "state")
    assert line["state"] == "bad" and "0755" in line["fact"]
    _, command = line["fix"].split("; or: ")
    subprocess.run(command, shell=True, check=True)
    assert doctor.state("incidentd", "state") == "ok"


def test_a_gap_is_told(daemon):
    one = daemon()
    doctor = Doctor(one)
    assert doctor.state("incidentd", "running") == "ok"
    one.kill()
    one.start()
    line = doctor.line("incidentd", "running")
    assert line["state"] == "warn" and "nothing was recorded from" in line["fact"]
    one.stop()
    one.start()
    assert doctor.state("incidentd", "running") == "ok"


def test_no_room(daemon):
    one = daemon()
    assert Doctor(one).state("incidentd", "space") in ("ok", "warn")
    one.config.write_text('[budget]\nkeep_free = "64TiB"\n')
    line = Doctor(one).line("incidentd", "space")
    assert line["state"] == "bad" and "64.0 TiB" in line["fact"]


def test_kernel_without_type_information(daemon):
    one = daemon(started=False)
    hide = 'mount -t tmpfs none /sys/kernel/btf && exec "$@"'
    doctor = Doctor(one, Ctl(one.state, prefix=("unshare", "--mount", "sh", "-c", hide, "sh")))
    line = doctor.line("kernel", "BTF")
    assert line["state"] == "bad" and "/sys/kernel/btf/vmlinux" in line["fact"]
    assert Doctor(one).state("kernel", "BTF") == "ok"


def test_not_root_does_not_say_ok_of_what_it_cannot_see(recorder, tmp_path):
    open_to_others(tmp_path)
    readable = tmp_path / "rules"
    shutil.copytree(recorder.rules, readable)
    binary = shutil.copy(INCIDENTCTL, tmp_path / "incidentctl")
    doctor = Doctor(recorder, Ctl(recorder.state, binary))
    doctor.options = ["doctor", "--rules", readable]
    nobody = {"user": NOBODY, "cwd": "/"}
    running = doctor.line("incidentd", "running", **nobody)
    assert running["state"] == "unknown" and running["fix"] == "run as root"
    assert "ok" not in {line["state"] for line in doctor.lines("incidentd", "state", **nobody)}
    assert "unknown" in {line["state"] for line in doctor.lines("programs", "matched", **nobody)}
    assert doctor.line("kernel", "release", **nobody)["state"] == "ok"


def may_lower_oom_score():
    status = Path("/proc/self/status").read_text()
    (effective,) = (line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) & 1 << 24)  # CAP_SYS_RESOURCE, capability.h


def test_the_oom_killer_may_choose_incidentd(daemon):
    one = daemon()
    doctor = Doctor(one)
    line = doctor.line("incidentd", "OOM score")
    assert line["state"] == "warn"
    assert line["fix"].startswith(f"choom -n -900 -p {one.process.pid}")
    if not may_lower_oom_score():
        pytest.skip("this machine's root is without CAP_SYS_RESOURCE, and cannot mend it")
    subprocess.run(line["fix"], shell=True, check=True)
    assert doctor.state("incidentd", "OOM score") == "ok"


def test_nothing_is_changed_or_started(daemon, tmp_path):
    one = daemon(started=False)
    Doctor(one).ask()
    assert not one.state.exists()


@pytest.mark.parametrize("option", ["--rule", "extra"])
def test_wrong_usage(recorder, option):
    done = recorder.ctl.run("doctor", option)
    assert done.returncode == 2
    assert option in done.stderr

