"""The part `syscall` on the kernels Debian ships, in a virtual machine."""

import json
import shutil
import subprocess
from pathlib import Path

from bench.lib.table import Table

SOURCE = Path(__file__).resolve().parents[3]
EMULATED = (
    "by software emulation, for there is no KVM here: it shows how many instructions there are, not how long they take on a"
    " processor with its caches and mitigations"
)
CASE = """#!/bin/bash
# what a call costs on this kernel
# kernels: 6.1 backports
. /host/lib.sh
note "$(uname -r)" && uname -r > "$OUT/kernel"
install_incidentd
check "measured" python3 -B "$SOURCE/tests/bench/run" --build "$BUILD" --programs "$BUILD/tests/bench" {options} \\
    --json "$OUT/found.json" syscall
"""


def virtualizes():
    """The device alone may be there and not work, as in a virtual machine that may not make others."""
    flags = Path("/proc/cpuinfo").read_text().split()
    return ("vmx" in flags or "svm" in flags) and Path("/dev/kvm").exists()


def run(bench):
    programs = bench.build / "tests/bench"
    programs.mkdir(exist_ok=True)
    for program in (bench.compiled("calls"), bench.compiled("empty_pair", "-lbpf")):
        shutil.copy2(program, programs)
    work = bench.directory("machine")
    case, left = work / "price.sh", work / "left"
    case.write_text(CASE.format(options=f"--rounds {bench.rounds}" + (" --quick" if bench.quick else "")))
    accelerated = virtualizes()
    command = [SOURCE / "tests/vm/run", "--build-dir", bench.build, "--out", left, "--timeout", "5400"]
    command += ["--accel", "kvm"] if accelerated else []
    ended = subprocess.run([*command, case], capture_output=True, text=True, check=False)
    found = sorted(left.glob("*/found.json"))
    if ended.returncode or not found:
        raise RuntimeError(f"{ended.stdout[-4000:]}\n{ended.stderr[-2000:]}")
    return [table for path in found for table in tables(path, () if accelerated else (EMULATED,))]


def tables(path, notes):
    kernel = path.with_name("kernel").read_text().strip()
    part = json.loads(path.read_text())["parts"]["syscall"]
    for one in part["tables"]:
        yield Table(f"Linux {kernel}: {one['title']}", one["columns"], map(spreads, one["rows"]), notes)


def spreads(row):
    """JSON has lists where a cell is a pair."""
    return [tuple(cell) if isinstance(cell, list) else cell for cell in row]
