"""A process dies whose files are gone: deleted, replaced, where nobody else sees them.  Its stack is told all the same."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from lib.compiled import compiled
from lib.kept import copies, first_part, own, until_kept
from lib.victims import let_die, start
from lib.wait import until

RULE = """
[[rule]]
name    = "death"
on      = "signal"
signals = ["SIGSEGV", "SIGKILL"]
match   = { exe = ["*/gone-program*", "/memfd:gone*"] }
"""
CHAIN = ["innermost", "middle", "outer", "main"]
FLAGS = {
    "with frame pointers": ("-O0",),
    "optimized": ("-O2",),
    "without a build-id": ("-O2", "-Wl,--build-id=none"),
    "stripped of sections but for the dynamic ones": ("-O2", "-s", "-rdynamic"),
    "not PIE": ("-O2", "-no-pie", "-fno-pie"),
    "static": ("-O2", "-static"),
}


def ready(*command, **options):
    process = start(*map(str, command), stdin=subprocess.PIPE, preexec_fn=no_core, **options)
    assert process.stdout.readline() == b"ready\n"
    return process


def no_core():
    """Nothing holds its /proc open when it dies."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    from lib.daemon import Daemon

    shared = Daemon(tmp_path_factory.mktemp("recorder"), rules=RULE).start()
    yield shared
    shared.stop()


def names(incident):
    return [frame["symbol"] for frame in incident.crashed["stack"]["frames"] if frame["symbol"]]


def assert_told(incident, chain, path):
    found = names(incident)
    assert found[: len(chain)] == chain, incident.crashed["stack"]
    assert incident.crashed["stack"]["truncated"] is False, incident.crashed["stack"]
    module = next(module for module in json.loads(incident.text("analysis.json"))["modules"] if module["path"] == str(path))
    assert module["file"] == "kept copy", module


def assert_gdb_tells(watcher, incident, chain, **options):
    """The same frames as the bundle has, of the copies, and no code where a copy has none."""
    asked = ("-batch", "-ex", "bt", "-ex", f"x/i {chain[0]}", "-ex", "pwd")
    told = watcher.ctl.run("gdb", "--mini", incident.id, "--", *asked, **options)
    assert f"Working directory {options.get('cwd', os.getcwd())}." in told.stdout
    frames = re.findall(r"^#\d+ .*?(\S+) \(", told.stdout[told.stdout.index("see ") :], re.MULTILINE)
    assert frames[: len(chain)] == chain, told.stdout
    assert "Cannot access memory" in told.stdout + told.stderr, told.stdout


def died(watcher, process, how):
    if how == signal.SIGKILL:
        process.kill()
        process.wait()
    else:
        let_die(process)
    return watcher.explained_incident(process.pid)


@pytest.mark.parametrize("flags", FLAGS)
def test_deleted(watcher, tmp_path, flags):
    path = own(compiled("gone.c", *FLAGS[flags]), tmp_path)
    process = ready(path)
    until_kept(watcher, path)
    path.unlink()
    chain = CHAIN if "stripped" not in flags else ["main"]
    incident = died(watcher, process, signal.SIGSEGV)
    if chain == CHAIN:
        assert_told(incident, chain, path)
    else:
        assert "main" in names(incident), incident.crashed["stack"]


def test_replaced_as_an_upgrade_does(watcher, tmp_path):
    path = own(compiled("gone.c", "-O2"), tmp_path)
    process = ready(path)
    until_kept(watcher, path)
    shutil.copy("/bin/true", tmp_path / "new")
    os.rename(tmp_path / "new", path)
    incident = died(watcher, process, signal.SIGSEGV)
    assert_told(incident, CHAIN, path)
    assert_gdb_tells(watcher, incident, CHAIN)


@pytest.mark.parametrize("gone", ["deleted", "replaced"])
def test_a_library_that_is_gone(watcher, tmp_path, gone):
    """Where another library has its name, gdb would take that one, and show frames that never were."""
    program = own(compiled("gone.c", "-O2"), tmp_path)
    built = compiled("gone_library.c", "-O2", "-shared", "-fPIC", "-fomit-frame-pointer")
    library = own(built, tmp_path, "libgone.so")
    process = ready(program, library)
    until_kept(watcher, library)
    library.unlink()
    if gone == "replaced":
        shutil.copy(compiled("gone_library.c", "-O0", "-shared", "-fPIC"), library)
    incident = died(watcher, process, signal.SIGSEGV)
    chain = ["library_inner", "library_work", "outer", "main"]
    assert_told(incident, chain, library)
    for directory in (tmp_path, "/"):  # where gdb would look for it as well
        assert_gdb_tells(watcher, incident, chain, cwd=directory)


def test_a_program_that_never_had_a_name(watcher, tmp_path):
    program = own(compiled("gone.c", "-O2"), tmp_path)
    memory = os.memfd_create("gone-in-memory")
    with open(program, "rb") as file:
        os.write(memory, file.read())
    process = ready(f"/proc/self/fd/{memory}", pass_fds=[memory])
    os.close(memory)
    until_kept(watcher, program)
    incident = died(watcher, process, signal.SIGSEGV)
    assert_told(incident, CHAIN, "/memfd:gone-in-memory")


def test_a_program_that_only_its_own_mounts_have(watcher, tmp_path):
    program = own(compiled("gone.c", "-O2"), tmp_path)
    place = tmp_path / "place"
    place.mkdir()
    script = f"mount -t tmpfs none {place} && cp {program} {place}/gone-program && exec {place}/gone-program"
    process = ready("unshare", "-m", "sh", "-c", script)
    until_kept(watcher, program)
    assert_told(died(watcher, process, signal.SIGSEGV), CHAIN, place / "gone-program")


def test_one_that_was_there_before_the_daemon(daemon, tmp_path):
    path = own(compiled("gone.c", "-O2"), tmp_path)
    process = ready(path)
    first = first_part(path)
    path.unlink()
    later = daemon(rules=RULE)
    process.stdin.write(b"x")  # so that it makes a call, and is known
    process.stdin.flush()
    until(lambda: any(name.startswith(first) for name in copies(later)), "a copy", later.tail)
    assert_told(died(later, process, signal.SIGSEGV), CHAIN, path)


def test_killed(watcher, tmp_path):
    """Of kill -9 nothing is left in /proc, and the stack is that of a call: its library's name, too, is from the copies."""
    path = own(compiled("gone.c", "-O2"), tmp_path)
    process = ready(path)
    until_kept(watcher, path)
    path.unlink()
    incident = died(watcher, process, signal.SIGKILL)
    assert "main" in names(incident), incident.crashed["stack"]
    assert incident.crashed["stack"]["truncated"] is False


def test_a_restart_keeps_what_was_kept(daemon, tmp_path):
    first = daemon(rules=RULE)
    path = own(compiled("gone.c", "-O2"), tmp_path)
    process = ready(path)
    until_kept(first, path)
    before = set(copies(first))
    first.stop()
    unfinished = first.state / "modules" / "unfinished.part"
    unfinished.write_bytes(b"x")
    first.start()
    assert before <= set(copies(first))
    assert not unfinished.exists()
    process.kill()
    process.wait()


def test_a_number_that_is_used_again_is_not_taken_for_the_file_before(watcher, tmp_path):
    """A file system gives the number of a deleted file to the next one: what crashes then is that one."""
    path = tmp_path / "gone-program"
    other = compiled("gone.c", "-O2", "-Dmiddle=centre", "-Douter=shell")
    for program, chain in [(compiled("gone.c", "-O2"), CHAIN), (other, ["innermost", "centre", "shell", "main"])] * 2:
        own(program, tmp_path)
        process = ready(path)
        until_kept(watcher, path)
        path.unlink()
        assert_told(died(watcher, process, signal.SIGSEGV), chain, path)


def test_within_its_budget(daemon, tmp_path):
    """Those that are used go on being kept, what was used longest ago gives way."""
    small = daemon(rules=RULE, config='[budget]\nmodules = "3MiB"\n')

    def used():
        return sum(os.stat(small.state / "modules" / name).st_blocks * 512 for name in copies(small))

    for number in range(12):
        path = own(compiled("gone.c", "-O2", "-static", f"-DNUMBER={number}", f"-Wl,--build-id=0x{number:08x}"), tmp_path)
        process = ready(path)
        until_kept(small, path)
        process.kill()
        process.wait()
        path.unlink()
    assert used() <= 3 << 20
    assert small.ctl.json("status")["modules"]["removed"] > 0


def test_none_is_kept_where_none_is_wanted(daemon, tmp_path):
    without = daemon(rules=RULE, config='[budget]\nmodules = "0B"\n')
    path = own(compiled("gone.c", "-O2"), tmp_path)
    process = ready(path)
    path.unlink()
    incident = died(without, process, signal.SIGSEGV)
    assert not copies(without)
    # What is there in any case: where it died, and that nothing is known of the way there.
    assert incident.crashed["stack"]["frames"]
    assert incident.crashed["stack"]["truncated"] is True
