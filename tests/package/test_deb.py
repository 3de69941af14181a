"""The .deb: what is in it, what lintian thinks of it, and that it comes and goes as it should."""

import os
import re
import shutil
import subprocess

import pytest

from lib.programs import BUILD, SOURCE, add_bundle, output
from lib.root import Root

UNITS = sorted(file.name for kind in ("service", "timer") for file in (SOURCE / "systemd").glob(f"*.{kind}"))
UNIT_DIRECTORY = output("pkg-config", "--variable=systemdsystemunitdir", "systemd").strip()
VERSION = re.search(r"project\(incidentd VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
NEXT = VERSION + "+1"
CONFFILE = "/etc/incidentd/incidentd.toml"
STATE = "/var/lib/incidentd"
LINK = "/etc/systemd/system/multi-user.target.wants/incidentd.service"


def cpack(directory, *options, **environment):
    output("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", directory, *options,
           cwd=BUILD, env={**os.environ, **environment})
    shutil.rmtree(directory / "_CPack_Packages")
    return {file.name.split("_")[0]: file for file in directory.iterdir()}


@pytest.fixture(scope="session")
def packages():
    """Made anew, and left in the build directory: tests/vm installs it from there."""
    directory = BUILD / "package"
    shutil.rmtree(directory, ignore_errors=True)
    return cpack(directory)


@pytest.fixture(scope="session")
def deb(packages):
    return packages["incidentd"]


@pytest.fixture(scope="session")
def next_deb(deb, tmp_path_factory):
    """The same of a later version, with another default in its configuration."""
    directory = tmp_path_factory.mktemp("next")
    output("dpkg-deb", "-R", deb, directory / "tree")
    control = directory / "tree/DEBIAN/control"
    control.write_text(control.read_text(encoding="utf-8").replace(f"Version: {VERSION}\n", f"Version: {NEXT}\n"),
                       encoding="utf-8")
    with open(directory / f"tree{CONFFILE}", "a", encoding="utf-8") as configuration:
        configuration.write("\n# new in this version\n")
    output("dpkg-deb", "-Znone", "-b", directory / "tree", directory / "next.deb")
    return directory / "next.deb"


def field(deb, name):
    return output("dpkg-deb", "-f", deb, name).strip()


def listing(deb):
    """{path: (mode, owner)} of all files"""
    found = {}
    for line in output("dpkg-deb", "-c", deb).splitlines():
        mode, owner, _, _, _, path = line.split(maxsplit=5)
        if not mode.startswith("d"):
            found[path.split(" -> ")[0].removeprefix(".")] = (mode, owner)
    return found


def test_contents(deb):
    expected = {
        "/usr/sbin/incidentd", "/usr/bin/incidentctl", CONFFILE,
        "/usr/lib/systemd/catalog/incidentd.catalog", "/usr/lib/sysusers.d/incidentd.conf",
        "/usr/lib/tmpfiles.d/incidentd.conf", "/usr/share/incidentd/coredump.conf.d/50-incidentd.conf",
        "/usr/share/bash-completion/completions/incidentctl", "/usr/share/zsh/vendor-completions/_incidentctl",
        "/usr/share/doc/incidentd/changelog.gz", "/usr/share/doc/incidentd/copyright",
        "/usr/share/man/man8/incidentd.8.gz", "/usr/share/man/man1/incidentctl.1.gz",
        "/usr/share/man/man5/incidentd.toml.5.gz", "/usr/share/man/man5/incident-rules.5.gz",
        "/usr/share/man/man5/incident-bundle.5.gz",
        *(f"{UNIT_DIRECTORY}/{unit}" for unit in UNITS),
        *(f"/usr/share/incidentd/rules.d/{file.name}" for file in (SOURCE / "systemd/rules.d").glob("*.toml")),
        *(f"/usr/share/incidentd/gdb/{file.name}" for file in (SOURCE / "postmortem/gdb").glob("*.py")),
    }
    assert set(listing(deb)) == expected


def test_modes(deb):
    for path, (mode, owner) in listing(deb).items():
        assert owner == "root/root", path
        assert mode == ("-rwxr-xr-x" if "bin/" in path else "-rw-r--r--"), path


def test_control(deb):
    depends = {word.split()[0] for word in field(deb, "Depends").split(", ")}
    assert {"systemd", "libc6", "libbpf1", "libsystemd0", "libdw1"} <= depends
    assert field(deb, "Recommends") == "systemd-coredump, gdb"
    assert field(deb, "Version") == VERSION
    assert output("dpkg-deb", "-I", deb, "conffiles") == CONFFILE + "\n"
    changelog = (SOURCE / "systemd/package/changelog").read_text(encoding="utf-8")
    assert changelog.startswith(f"incidentd ({VERSION}) ")


def test_debug_symbols_are_the_programs(packages, tmp_path):
    symbols = packages["incidentd-dbgsym"]
    assert field(symbols, "Depends") == f"incidentd (= {VERSION})"
    output("dpkg-deb", "-x", symbols, tmp_path)
    output("dpkg-deb", "-x", packages["incidentd"], tmp_path)
    for program in ("usr/sbin/incidentd", "usr/bin/incidentctl"):
        notes = output("readelf", "-n", tmp_path / program)
        build_id = re.search("Build ID: ([0-9a-f]+)", notes)[1]
        assert build_id in field(symbols, "Build-Ids").split()
        debug = tmp_path / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
        assert ".debug_info" in output("readelf", "-SW", debug)
        assert ".symtab" not in output("readelf", "-SW", tmp_path / program)
        assert "main.cpp" in output("addr2line", "-f", "-e", debug, symbol_address(debug, "main"))
    sums = output("dpkg-deb", "-I", symbols, "md5sums")
    assert all(line.split()[1].startswith("usr/lib/debug/.build-id/") for line in sums.splitlines())


def symbol_address(file, name):
    return re.search(rf"^([0-9a-f]+) [Tt] {name}$", output("nm", file), re.M)[1]


def test_lintian(packages):
    done = subprocess.run(["lintian", "--allow-root", *packages.values()], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:")] == [], done.stderr


def test_the_same_input_gives_the_same_package(deb, tmp_path):
    """At another time, in another place; but for the umask, which cpack writes into the archive's members."""
    again = cpack(tmp_path / "again", "-D", "CPACK_INCIDENTD_SYMBOLS=OFF", TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
    assert set(again) == {"incidentd"}
    assert again["incidentd"].read_bytes() == deb.read_bytes()


def test_units_verify(deb, machine):
    """Against the installed files: ExecStart= and the pages they name must be there."""
    install(machine, deb)
    machine.write("/etc/incidentd/on-incident", "#!/bin/sh\n")  # the administrator's
    (machine.path / "etc/incidentd/on-incident").chmod(0o755)
    done = machine.run("systemd-analyze", "verify", "--man=yes", *(f"{UNIT_DIRECTORY}/{unit}" for unit in UNITS))
    ours = [line for line in done.stderr.splitlines() if "incident" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


# ---- coming and going


def install(machine, deb, *options):
    name = machine.path / "run/package.deb"
    shutil.copy(deb, name)
    done = machine.run("dpkg", *options, "-i", "/run/package.deb")
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def machine(tmp_path):
    try:
        root = Root(tmp_path).mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no overlay of / can be mounted here: {error.stderr.strip()}")
    yield root
    root.unmount()


def group(machine):
    return re.search(r"^incident:.*$", machine.read("/etc/group"), re.M)


def mode(machine, path):
    status = (machine.path / path.lstrip("/")).stat()
    return oct(status.st_mode & 0o7777), status.st_uid, status.st_gid


def test_life_of_a_package(deb, next_deb, machine):
    assert not machine.has("/usr/sbin/incidentd")

    # ---- installed: nothing enabled, nothing said
    done = install(machine, deb)
    assert re.fullmatch(r"Creating group 'incident' with GID \d+\.\n", done.stderr)
    assert not [path for path in machine.changes() if path.startswith("/etc/systemd/")]
    assert not machine.has(LINK)
    assert group(machine)
    assert re.search(r"^incident:[^:]*:\d+:$", machine.read("/etc/group"), re.M), "it has members"
    assert mode(machine, STATE) == ("0o700", 0, 0)
    assert mode(machine, f"{STATE}/incidents") == ("0o700", 0, 0)
    assert "Incident recorded" in machine.run("journalctl", "--dump-catalog", "0b1ca4f5d0f44a3c9d8f2d7e61c05ba7").stdout
    assert machine.run("incidentd", "--check").returncode == 0
    assert machine.run("dpkg", "--audit").stdout == ""
    assert machine.run("dpkg", "--verify", "incidentd").stdout == ""
    assert "incidentd - flight recorder" in machine.run("man", "-P", "cat", "8", "incidentd").stdout

    # ---- used
    name = "20261121T222222.222Z-crash-python3-4712-bbbbbb"
    add_bundle(machine.path / STATE.lstrip("/"), name)
    machine.write(CONFFILE, '[log]\nlevel = "debug"\n')
    machine.write("/etc/incidentd/rules.d/mine.toml", "# none yet\n")
    machine.write("/var/lib/incident-hook/sent", "what the hook keeps\n")
    assert machine.run("systemctl", "enable", "incidentd.service").returncode == 0
    assert machine.has(LINK)
    access = machine.path / STATE.lstrip("/")
    access.chmod(0o750)  # as [access] group does

    # ---- upgraded: what the administrator did stays
    install(machine, next_deb, "--force-confold")
    assert field_of(machine, "Version") == NEXT
    assert machine.read(CONFFILE) == '[log]\nlevel = "debug"\n'
    assert "new in this version" in machine.read(CONFFILE + ".dpkg-dist")
    assert machine.has(LINK)
    assert mode(machine, STATE)[0] == "0o750"
    assert machine.run("incidentctl", "list", "--json").stdout.count(name) == 1

    # ---- removed: what was recorded and configured stays
    done = machine.run("dpkg", "-r", "incidentd")
    assert (done.returncode, done.stderr) == (0, "")
    assert not machine.has("/usr/sbin/incidentd")
    assert not machine.has(f"{UNIT_DIRECTORY}/incidentd.service")
    assert machine.read(CONFFILE) == '[log]\nlevel = "debug"\n'
    assert machine.has(f"{STATE}/incidents/{name}/incident.json")
    assert group(machine)
    assert "Incident recorded" not in machine.run("journalctl", "--dump-catalog").stdout

    # ---- and is found again
    install(machine, next_deb, "--force-confold")
    assert machine.has(LINK)
    assert name in machine.run("incidentctl", "list", "--json").stdout

    # ---- purged: nothing asked, nothing left
    done = machine.run("dpkg", "-P", "incidentd")
    assert (done.returncode, done.stderr) == (0, "")
    assert not group(machine)
    left = [path for path in machine.changes() if "incident" in path and not path.startswith("/var/cache/man/")]
    assert left == []
    assert not machine.has("/var/lib/incident-hook")
    assert not machine.has(STATE) and not machine.has("/etc/incidentd") and not machine.has(LINK)


def field_of(machine, name):
    return machine.run("dpkg-query", "-W", f"-f=${{{name}}}", "incidentd").stdout


def test_purge_leaves_a_group_that_is_a_users_own(deb, machine):
    install(machine, deb)
    assert machine.run("useradd", "--gid", "incident", "reader").returncode == 0
    done = machine.run("dpkg", "-P", "incidentd")
    assert done.returncode == 0
    assert "the group incident stays" in done.stderr
    assert group(machine)


def test_purge_follows_a_state_directory_that_was_moved(deb, machine):
    install(machine, deb)
    (machine.path / STATE.lstrip("/")).rename(machine.path / "srv/incidentd")
    (machine.path / STATE.lstrip("/")).symlink_to("/srv/incidentd")
    add_bundle(machine.path / "srv/incidentd", "20261121T222222.222Z-crash-python3-4712-bbbbbb")
    assert machine.run("dpkg", "-P", "incidentd").returncode == 0
    assert not machine.has(STATE)
    assert list((machine.path / "srv/incidentd").iterdir()) == []
