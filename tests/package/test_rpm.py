"""The .rpm: its contents and scripts.  It is not installed: nothing here has its dependencies."""

import re
import shutil

import pytest

from lib.programs import BUILD, SOURCE, output

CONFFILE = "/etc/incidentd/incidentd.toml"


@pytest.fixture(scope="module")
def rpm(tmp_path_factory):
    if shutil.which("rpmbuild") is None:
        pytest.skip("no rpmbuild here")
    directory = tmp_path_factory.mktemp("rpm")
    output("cpack", "-G", "RPM", "--config", BUILD / "CPackConfig.cmake", "-B", directory, cwd=BUILD)
    return next(directory.glob("*.rpm"))


def test_contents(rpm):
    files = set(output("rpm", "-qpl", rpm).splitlines())
    assert {
        "/usr/sbin/incidentd", "/usr/bin/incidentctl", CONFFILE, "/usr/lib/systemd/system/incidentd.service",
        "/usr/lib/systemd/catalog/incidentd.catalog", "/usr/lib/sysusers.d/incidentd.conf",
        "/usr/lib/tmpfiles.d/incidentd.conf", "/usr/share/man/man8/incidentd.8.gz",
        *(f"/usr/share/incidentd/rules.d/{file.name}" for file in (SOURCE / "systemd/rules.d").glob("*.toml")),
    } <= files
    # directories of others are not claimed
    assert not {"/usr", "/usr/bin", "/usr/lib/systemd/system", "/usr/share/man/man1", "/etc"} & files
    assert output("rpm", "-qpc", rpm).splitlines() == [CONFFILE]


def test_is_stripped(rpm):
    sizes = dict(line.split() for line in output("rpm", "-qp", "--qf", "[%{FILENAMES} %{FILESIZES}\n]", rpm).splitlines())
    assert int(sizes["/usr/sbin/incidentd"]) < 20 << 20


def test_scripts_start_nothing_at_first(rpm):
    scripts = output("rpm", "-qp", "--scripts", rpm)
    assert "systemd-sysusers incidentd.conf" in scripts
    assert not re.search(r"systemctl.*\b(enable|start|restart)\b(?!-)", scripts.replace("try-restart", ""))
    assert re.search(r'"\$1" -gt 1 \]; then\n\s+systemctl try-restart .*incidentd.service', scripts)


def test_requires(rpm):
    assert "libbpf.so.1" in output("rpm", "-qpR", rpm)
