"""What is left of reading a file in the page cache (sysbench fileio seqrd, sync, 16 KiB), call after call."""

import os
import re
import subprocess
from contextlib import nullcontext
from functools import partial

from bench.lib.recorders import empty_pair, shares, watching
from bench.lib.sample import alternate

SIZE = "64M"  # small: it stays in the page cache
SECONDS, SECONDS_QUICK = 5, 1
FILE = [f"--file-total-size={SIZE}", "--file-num=1"]
READ = ["--file-block-size=16384", "--file-test-mode=seqrd", "--file-io-mode=sync", "--file-fsync-freq=0"]
STRACE = ["strace", "-f", "-o", "kept"]


def sysbench(directory, command, *options, prefix=()):
    last = os.cpu_count() - 1
    argv = ["taskset", "-c", str(last), *prefix, "sysbench", "fileio", *FILE, *options, command]
    return subprocess.run(argv, cwd=directory, check=True, capture_output=True, text=True).stdout


def reads(directory, seconds, attached, prefix=()):
    with attached():
        said = sysbench(directory, "run", *READ, f"--time={seconds}", prefix=prefix)
    return float(re.search(r"reads/s: +([\d.]+)", said)[1])


def run(bench):
    program = bench.tool("sysbench")
    if not program:
        return []
    directory = bench.directory("fileio")
    sysbench(directory, "prepare")
    seconds = SECONDS_QUICK if bench.quick else SECONDS
    attached = {
        "nothing": nullcontext,
        "empty pair": partial(empty_pair, bench),
        "incidentd, recorded": partial(watching, bench, os.path.realpath(program)),
    }
    variants = {name: partial(reads, directory, seconds, one) for name, one in attached.items()}
    if bench.tool("strace"):
        variants["strace -f"] = partial(reads, directory, seconds, nullcontext, STRACE)
    reads(directory, 1, nullcontext)  # the file's pages are there then
    found = alternate(variants, bench.rounds)
    return [shares(f"sysbench fileio seqrd, sync, 16 KiB, a file of {SIZE} in the page cache", "reads a second", found)]
