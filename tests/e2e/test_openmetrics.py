"""incidentctl status --openmetrics: what a scraper sees, by a parser that takes nothing else."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lib.ctl import Ctl
from lib.daemon import Daemon
from lib.programs import INCIDENTCTL, victim
from lib.users import open_to_others
from lib.victims import run
from lib.wait import until

NOBODY = 65534

RULES = """
[[rule]]
name = "crash"
on = "signal"

[[rule]]
name = "absent"
on = "latency"
probe = "uprobe:/nowhere/program:function"
threshold = "1s"
"""


def families(text):
    """By name; a family or a sample that comes twice is an error."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, family.name
        samples = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        assert len(samples) == len(set(samples)), samples
        found[family.name] = family
    return found


def value(found, name, **labels):
    (sample,) = [s for s in found[name].samples if s.labels == labels]
    return sample.value


@pytest.fixture(scope="module")
def two_rules(tmp_path_factory):
    shared = Daemon(tmp_path_factory.mktemp("metrics"), rules=RULES).start()
    yield shared
    shared.stop()


def test_every_family_is_whole(two_rules):
    found = families(two_rules.ctl.text("status", "--openmetrics"))
    for family in found.values():
        assert family.name.startswith("incidentd_")
        assert family.documentation
        assert family.type in ("counter", "gauge"), "node_exporter's textfile collector knows no other"
        assert family.unit == "" or family.name.endswith("_" + family.unit)
        assert all(sample.timestamp is None for sample in family.samples)


def test_it_says_what_status_says(two_rules):
    two_rules.incident(run(victim("die"), "null-read").pid)
    status = two_rules.ctl.json("status")
    found = families(two_rules.ctl.text("status", "--openmetrics"))
    assert value(found, "incidentd_up") == 1
    assert value(found, "incidentd_build_info", version=status["version"]) == 1
    assert value(found, "incidentd_rules", state="active") == 1
    assert value(found, "incidentd_rules", state="unavailable") == 1
    assert value(found, "incidentd_rule_firings", rule="crash", kind="signal") == 1
    assert value(found, "incidentd_rule_firings", rule="absent", kind="latency") == 0
    assert value(found, "incidentd_incidents", outcome="committed") == 1
    assert value(found, "incidentd_incidents", outcome="failed") == 0
    assert value(found, "incidentd_bundles") == 1
    assert value(found, "incidentd_recorder_slots", of="threads") == status["recorder"]["threads_max"]
    started = value(found, "incidentd_start_time_seconds")
    assert os.stat(f"/proc/{status['pid']}").st_ctime >= started - 1


def test_counters_only_grow(two_rules):
    def counters():
        found = families(two_rules.ctl.text("status", "--openmetrics"))
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in found.values()
            if family.type == "counter"
            for sample in family.samples
        }

    before = counters()
    two_rules.incident(run(victim("die"), "null-read").pid)
    after = counters()
    fired = ("incidentd_rule_firings_total", (("kind", "signal"), ("rule", "crash")))
    assert after[fired] == before[fired] + 1
    assert [name for name, was in before.items() if after[name] < was] == []


def test_disk_use_is_that_of_the_bundles(two_rules):
    two_rules.explained_incident(run(victim("die"), "null-read").pid)

    def agree():
        used = subprocess.run(
            ["du", "-s", "--block-size=1", two_rules.state / "incidents"], capture_output=True, text=True, check=True
        ).stdout
        top = os.lstat(two_rules.state / "incidents").st_blocks * 512
        found = families(two_rules.ctl.text("status", "--openmetrics"))
        return value(found, "incidentd_bundles_bytes") == int(used.split()[0]) - top

    until(agree, "both to be of the same bundles: last words are added two seconds later", two_rules.tail)


def test_output_is_a_file_for_all_to_read(two_rules, tmp_path):
    file = tmp_path / "incidentd.prom"
    file.write_text("before")
    with open(file, encoding="utf-8") as reader:
        done = two_rules.ctl.run("status", "--openmetrics", "--output", file)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert reader.read() == "before", "it was written over, not replaced"
    assert families(file.read_text())["incidentd_up"].samples[0].value == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["incidentd.prom"]


def test_a_daemon_that_does_not_answer(daemon):
    stopped = daemon()
    stopped.stop()
    done = stopped.ctl.run("status", "--openmetrics")
    assert done.returncode == 1
    found = families(done.stdout)
    assert value(found, "incidentd_up") == 0
    assert "incidentd_rules" not in found
    assert "not running" in done.stderr


def test_who_may_not_ask_says_nothing(two_rules, tmp_path):
    """Not even that it is down."""
    open_to_others(tmp_path)
    binary = shutil.copy(INCIDENTCTL, tmp_path / "incidentctl")
    done = Ctl(two_rules.state, binary).run("status", "--openmetrics", user=NOBODY, group=NOBODY, cwd="/")
    assert (done.returncode, done.stdout) == (1, "")


def test_what_recording_costs_is_measured(daemon):
    """The kernel counts run times only while the daemon asks for it."""
    assert Path("/proc/sys/kernel/bpf_stats_enabled").read_text() == "0\n", "or this would show nothing"
    watcher = daemon()
    cost = until(lambda: watcher.ctl.json("status")["recorder"].get("cost"), "a measurement", watcher.tail)
    assert cost["ns_per_syscall"] > 0 and cost["syscalls_per_second"] > 0
    assert "incidentd_recorder_syscall_seconds" in families(watcher.ctl.text("status", "--openmetrics"))
