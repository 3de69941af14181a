"""The unit file, by systemd's own opinion of it.  That it works so is the virtual machine's (tests/vm)."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).resolve().parents[2] / "systemd"
UNIT = SYSTEMD / "incidentd.service"
PAGE = SYSTEMD / "man/incidentd.8.scd"
EXPOSURE = 3.2  # incidentd(8), "Confinement"; the virtual machine's case has it as well

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def rated():
    return analyze("--no-pager", "security", "--offline=true", str(UNIT)).stdout


def test_nothing_to_complain_about(tmp_path):
    # Its programs need not be installed here.
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"/usr/sbin/incidentd", "/bin/true", UNIT.read_text()))
    verified = analyze("--man=no", "verify", str(unit))
    assert [line for line in verified.stderr.splitlines() if unit.name in line] == []


def test_a_complaint_would_be_seen(tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text() + "\n[Service]\nProtectEverything=yes\n")
    assert "ProtectEverything" in analyze("--man=no", "verify", str(unit)).stderr


def test_exposure_does_not_grow(rated):
    level = re.search(r"Overall exposure level for incidentd.service: ([0-9.]+)", rated)
    assert level, rated
    assert float(level.group(1)) <= EXPOSURE, rated


def confinement():
    """The page's section."""
    return re.search(r"^# CONFINEMENT\n(.*?)(?=^# )", PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]


def test_page_says_the_same():
    assert f"exposure {EXPOSURE}" in confinement()


def test_each_process_is_less_exposed(tmp_path):
    """The unit, as if it had only what this process keeps.  test_rights.py: that it keeps no more."""
    (of_unit,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    kept = dict(re.findall(r"^_(incidentd[-a-z]*)_: (.*)$", confinement(), re.M))
    assert kept.keys() == {"incidentd-bpf", "incidentd-tool", "incidentd-hook", "incidentd"}
    named = {name: re.findall(r"CAP_\w+", text) for name, text in kept.items()}
    others = {capability for name in kept if name != "incidentd" for capability in named[name]}
    named["incidentd"] += sorted(set(of_unit.split()) - others)
    rated = []
    for name, capabilities in named.items():
        unit = tmp_path / f"{name}.service"
        own = f"CapabilityBoundingSet={' '.join(capabilities)}"
        unit.write_text(re.sub(r"^CapabilityBoundingSet=.*$", own, UNIT.read_text(), flags=re.MULTILINE))
        said = analyze("--no-pager", "security", "--offline=true", str(unit)).stdout
        rated.append(re.search(r"Overall exposure level for .*: ([0-9.]+)", said)[1])
        assert float(rated[-1]) < EXPOSURE, said
    first, second, third, last = rated
    assert f"rate the unit {first} if it were only the first of them, {second} the second, {third} the third and {last} the last" in (
        " ".join(confinement().split())
    )


@pytest.mark.parametrize(
    "capability", re.search(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE).group(1).split()
)
def test_each_capability_is_accounted_for(capability):
    heads = re.findall(r"^(\*CAP_.*)\n\t", confinement(), re.M)
    assert f"*{capability}*" in ", ".join(heads).split(", ")


def test_memory_has_room_beside_the_rings():
    """MemoryMax= holds what [record] memory_limit allows, and 512 MiB for explaining."""
    limit = re.search(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.MULTILINE)
    rings = re.search(r'^#memory_limit = "(\d+)MiB"$', (SYSTEMD / "incidentd.toml").read_text(), re.MULTILINE)
    assert int(limit.group(1)) >= int(rings.group(1)) + 512
