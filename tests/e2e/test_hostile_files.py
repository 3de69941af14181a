"""Processes whose files lie: a root and a build-id that are not theirs, files that change while they are looked at, and
executables of which every header and section has been damaged.
"""

import os
import random
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from lib.compiled import compiled
from lib.daemon import CRASH_RULE, Daemon
from lib.incident import PID_IN_NAME, Incident
from lib.programs import victim
from lib.reference import build_id
from lib.victims import finish, let_die, run, running, start, waiting_victim
from lib.wait import until

EVE = 12345
AS_EVE = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups")
LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
# For how long mutants are tried; "all": each one there is, more than 10,000.
MUTANTS = os.environ.get("INCIDENT_MUTANTS", "20")


@pytest.fixture(name="place", scope="module")
def public_place():
    """Where everybody may pass and execute."""
    made = Path(f"/tmp/incidentd-hostile-{os.getpid()}")
    made.mkdir(mode=0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(name="recorder", scope="module")
def recorder_of_all(tmp_path_factory, place):
    """Each crash of these is kept whole, however many are alike."""
    rules = CRASH_RULE + f'match = {{ exe = ["{place}/*", "/hostile"] }}\n'
    shared = Daemon(tmp_path_factory.mktemp("hostile"), rules, "[storm]\nfull = 1000\n").start()
    yield shared
    shared.stop()


SWAP = """
import os, sys
name, secret = sys.argv[1:]
while True:
    with open(name, "w") as file:
        file.write("1000 10 hers\\n")
    os.unlink(name)
    os.symlink(secret, name)
    os.unlink(name)
"""


def everything_in(incident):
    return b"".join(path.read_bytes() for path in incident.path.rglob("*") if path.is_file())


def test_links_out_of_its_root(recorder, place):
    """In a root of hers every place that is looked at is a link to what only the host's root may read."""
    root = place / "root"
    for name in ("tmp", "etc", "usr/lib/debug/.build-id", "lib"):
        (root / name).mkdir(parents=True)
    secret = place / "secret"
    secret.write_text("what only root may read\n")
    secret.chmod(0o600)
    shutil.copy(compiled("hostile.c", "-static"), root / "hostile")
    (root / "etc/os-release").symlink_to(f"/proc/1/root{secret}")
    (root / "up").symlink_to("../" * 12)
    for name in ("tmp/perf-1.map", "etc/debuginfod"):
        (root / name).symlink_to(f"../up{secret}")
    outer = run(
        *("unshare", "--pid", "--fork", "--mount", "chroot", root, "/hostile", "plain"),
        stdin=subprocess.DEVNULL,
    )
    incident = recorder.incident_of_child(outer.pid)
    incident = recorder.explained_incident(incident.process["pid"])
    assert incident.crashed["stack"]["frames"][0]["symbol"] == "main"
    assert b"what only root may read" not in everything_in(incident)


def test_a_file_that_changes_while_it_is_looked_at(recorder, place):
    """CVE-2019-7307, CVE-2019-11481: between the look at whose a file is and the reading of it, it becomes a link."""
    secret = place / "hers-not"
    secret.write_text("1000 10 what_only_root_may_read\n")
    secret.chmod(0o600)
    shutil.copy(victim("die"), place / "die")
    for _ in range(4):
        with waiting_victim("null-read", *AS_EVE, place / "die") as process:
            perf_map = f"/tmp/perf-{process.pid}.map"
            Path(perf_map).unlink(missing_ok=True)  # of an earlier process of this number
            with running(*AS_EVE, "python3", "-c", SWAP, perf_map, secret):
                let_die(process)
                incident = recorder.explained_incident(process.pid)
        Path(perf_map).unlink(missing_ok=True)
        assert b"what_only_root_may_read" not in everything_in(incident)


def test_a_build_id_that_is_libcs(recorder, place):
    """Debug information of libc is found by it, and describes other code at these addresses."""
    program = place / "liar"
    flags = ("-O1", "-s", f"-Wl,--build-id=0x{build_id(LIBC)}", "-Wl,--section-start=.text=0x90000")
    shutil.copy(compiled("faults.c", *flags), program)
    died = run(program, "null")
    incident = recorder.explained_incident(died.pid)
    frames = incident.crashed["stack"]["frames"]
    own = [frame for frame in frames if frame["module"] == str(program)]
    assert own
    for frame in own:
        assert not frame.get("symbol"), frame
        assert not frame.get("file"), frame


def fields_and_sections(image):
    """Places of every header field, and of bytes of every section that holds no code."""
    phoff, shoff = struct.unpack_from("<QQ", image, 32)
    phentsize, phnum, shentsize, shnum, shstrndx = struct.unpack_from("<HHHHH", image, 54)
    places = [*range(4, 64), *range(phoff, phoff + phentsize * phnum), *range(shoff, shoff + shentsize * shnum)]
    for i in range(shnum):
        _, kind, flags, _, offset, size = struct.unpack_from("<IIQQQQ", image, shoff + i * shentsize)
        executable, nobits = flags & 4, kind == 8
        if not executable and not nobits and size:
            places += [offset + random.randrange(size) for _ in range(min(size, 300))]
    return places


@pytest.mark.slow
def test_mutants_of_a_program_that_crash(daemon, place):
    """Where the kernel still executes it, its crash is an incident and is explained, whatever its file says."""
    seed = int(os.environ.get("INCIDENT_MUTANTS_SEED", 1))
    random.seed(seed)
    image = Path(compiled("faults.c", "-O1")).read_bytes()
    places = fields_and_sections(image)
    mutants = [(at, flip) for at in places for flip in (0x01, 0x80, 0xFF)]
    random.shuffle(mutants)
    # Some are killed in the midst of execve(): the rule matches any executable.
    # Of thousands only the newest stay: each look reads all that are there.
    rules = f"{CRASH_RULE}match = {{ uid = [{EVE}] }}\n"
    watcher = daemon(rules=rules, config="[storm]\nfull = 1000000\n[budget]\nbundles = 50\n")
    end = time.monotonic() + float("inf" if MUTANTS == "all" else MUTANTS)
    tried, crashed, seen = 0, 0, set()
    while mutants and time.monotonic() < end:
        batch, mutants = mutants[:20], mutants[20:]
        died = {pid for at, flip in batch if (pid := crash_of(image, at, flip, place / "mutant"))}
        tried += len(batch)
        crashed += len(died)
        if died:
            seen |= explained(watcher, died, seen)
        if tried % 1000 == 0:
            print(f"{tried} mutants tried, {crashed} crashed and were explained", flush=True)
    assert crashed
    print(f"seed {seed}: {tried} mutants tried, {len(mutants)} left, {crashed} crashed and were explained")


def crash_of(image, at, flip, program):
    """Executes the mutant; its pid, if it has crashed."""
    program.write_bytes(image[:at] + bytes([image[at] ^ flip]) + image[at + 1 :])
    program.chmod(0o755)
    # --core=1: no handler of cores is started (core(5)), whose work is not looked at here.
    process = start(*AS_EVE, "prlimit", "--core=1:1", "--cpu=5:5", program, "null")
    try:
        died = finish(process)
    except subprocess.TimeoutExpired:  # it waits for something
        process.kill()
        process.wait()
        return None
    return died.pid if died.status in (-signal.SIGSEGV, -signal.SIGBUS) else None


def explained(watcher, pids, seen):
    """The names of their incidents, once they are all there and explained.  Earlier ones may have had the same pids."""

    def found():
        names = {path.name for path in (watcher.state / "incidents").iterdir() if not path.name.startswith(".")} - seen
        incidents = {int(PID_IN_NAME.search(name)[1]): Incident(watcher.state / "incidents" / name) for name in names}
        done = pids <= set(incidents) and all(incidents[pid].record.get("analysed") for pid in pids)
        return incidents if done else None

    incidents = until(found, f"incidents of {pids}, explained", watcher.tail, every=0.1)
    for pid in pids:
        assert incidents[pid].threads
    return {incident.id for incident in incidents.values()}
