"""What is left of reading a file in the page cache (sysbench fileio seqrd, sync, 16 KiB), call after call."""

import os
import re
import subprocess
from functools import partial

from bench.lib.recorders import attachments, measured_with, recorder, shares, watching
from bench.lib.sample import alternate
from lib.victims import running
from lib.wait import until

SIZE = "64M"  # small: it stays in the page cache
SECONDS, SECONDS_QUICK = 2, 1  # many short ones: the machine drifts by more than is looked for
FILE = [f"--file-total-size={SIZE}", "--file-num=1"]
READ = ["--file-block-size=16384", "--file-test-mode=seqrd", "--file-io-mode=sync", "--file-fsync-freq=0"]
STRACE = ["strace", "-f", "-o", "kept"]


def command(what, *options, prefix=()):
    last = os.cpu_count() - 1
    return ["taskset", "-c", str(last), *prefix, "sysbench", "fileio", *FILE, *options, what]


def sysbench(directory, *words, **prefix):
    argv = command(*words, **prefix)
    return subprocess.run(argv, cwd=directory, check=True, capture_output=True, text=True).stdout


def reads(directory, seconds, prefix=()):
    said = sysbench(directory, "run", *READ, f"--time={seconds}", prefix=prefix)
    return float(re.search(r"reads/s: +([\d.]+)", said)[1])


def warm_up(bench, program, directory):
    """The file's pages are in memory then; and that sysbench is recorded is seen while it runs, for it ends by itself."""
    argv = command("run", *READ, "--time=60")
    with watching(bench, program) as watcher, running(*argv, cwd=directory, stdout=subprocess.DEVNULL):
        until(lambda: recorder(watcher)["threads_used"], "sysbench to be recorded", watcher.tail)
    reads(directory, 1)


def run(bench):
    program = bench.tool("sysbench")
    if not program:
        return []
    directory, program = bench.directory("fileio"), os.path.realpath(program)
    sysbench(directory, "prepare")
    warm_up(bench, program, directory)
    seconds = SECONDS_QUICK if bench.quick else SECONDS
    variants = measured_with(attachments(bench, program, watching), partial(reads, directory, seconds))
    if bench.tool("strace"):
        variants["strace -f"] = partial(reads, directory, seconds, STRACE)
    found = alternate(variants, bench.rounds)
    return [shares(f"sysbench fileio seqrd, sync, 16 KiB, a file of {SIZE} in the page cache", "reads a second", found)]
