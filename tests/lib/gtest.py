#!/usr/bin/python3
"""Runs GoogleTest programs of a build, some tests a process, and writes one JUnit report.

Usage: gtest.py --build-dir DIR --report FILE.xml [--jobs N] [--minutes M] [--except REGEX] FOLDER...

FOLDER names a program by its folder in tests/: rules, capture, postmortem, fuzz, daemon.  The tests of one suite, at
most CHUNK of them, share a process: under a sanitizer a process takes a second to begin.  A program that ends without
its report is one failure, with the end of what it printed.

With --minutes what has not begun by then is skipped, and said; the order is drawn by chance, so that each has its turn.
Exits 1 when anything failed.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CHUNK = 8
CHUNK_SECONDS = 900  # then it hangs
TEST_BEGINS = "[ RUN "
SHOWN = 4000  # characters of what a test said whose program ended


@dataclass
class Chunk:
    folder: str
    program: Path
    suite: str
    tests: list

    @property
    def name(self):
        return f"{self.folder}.{self.suite}"


def program_of(build_dir, folder):
    return build_dir / "tests" / ("fuzz/fuzz_test" if folder == "fuzz" else f"{folder}_test")


def chunks_of(build_dir, folder, left_out):
    program = program_of(build_dir, folder)
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    suites, suite = {}, ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = name.removesuffix(".")
        elif not (left_out and left_out.search(f"{folder}.{suite}.{name.strip()}")):
            suites.setdefault(suite, []).append(name.strip())
    for suite, tests in suites.items():
        for first in range(0, len(tests), CHUNK):
            yield Chunk(folder, program, suite, tests[first : first + CHUNK])


# What XML 1.0 cannot hold.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def case_of(chunk, name, **children):
    """A test case; of children, `failure` or `skipped`, the message."""
    case = ElementTree.Element("testcase", classname=chunk.name, name=name)
    for tag, message in children.items():
        ElementTree.SubElement(case, tag, message=NOT_XML.sub("?", message))
    return case


def skip_reason(skipped):
    """What GTEST_SKIP() was given: GoogleTest puts the place on a line before it."""
    return " ".join((skipped.get("message") or "").splitlines()[1:]) or "no reason given"


def cases_of(chunk, report):
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        failures = [f.get("message") or "" for f in case.iter("failure")]
        skipped = case.find("skipped")
        if failures:
            yield case_of(chunk, case.get("name"), failure="\n".join(failures))
        elif skipped is not None or case.get("result") == "skipped":
            reason = skip_reason(skipped) if skipped is not None else "no reason given"
            yield case_of(chunk, case.get("name"), skipped=reason)
        else:
            yield case_of(chunk, case.get("name"))


def run(chunk, deadline):
    if deadline and time.monotonic() > deadline:
        return [case_of(chunk, test, skipped="the minutes for this suite are over") for test in chunk.tests]
    with tempfile.TemporaryDirectory(prefix="incidentd-gtest.") as scratch:
        report = Path(scratch) / "report.xml"
        wanted = ":".join(f"{chunk.suite}.{test}" for test in chunk.tests)
        begun = time.monotonic()
        try:
            ended = subprocess.run(
                [chunk.program, f"--gtest_filter={wanted}", f"--gtest_output=xml:{report}", "--gtest_color=no"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=chunk.program.parent,
                timeout=CHUNK_SECONDS,
                check=False,
            )
            status, output = ended.returncode, ended.stdout
        except subprocess.TimeoutExpired as late:
            status, output = f"nothing for {CHUNK_SECONDS} s", late.stdout or b""
        output = output.decode(errors="replace")
        cases = list(cases_of(chunk, report)) if report.exists() else []
        failed = any(case.find("failure") is not None for case in cases)
        if not cases or (status != 0 and not failed):
            said = f"it ended with {status}\n{output[output.rfind(TEST_BEGINS):][:SHOWN]}"
            cases.append(case_of(chunk, f"({len(chunk.tests)} tests)", failure=said))
            failed = True
    print(f"{'FAILED' if failed else 'passed'}  {chunk.name}: {len(cases)} in {time.monotonic() - begun:.1f} s", flush=True)
    if failed:
        print(output, flush=True)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--except", dest="left_out", type=re.compile)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    asked = parser.parse_args()
    deadline = time.monotonic() + asked.minutes * 60 if asked.minutes is not None else None
    chunks = [chunk for folder in asked.folders for chunk in chunks_of(asked.build_dir.absolute(), folder, asked.left_out)]
    if deadline:
        random.shuffle(chunks)
    whole = ElementTree.Element("testsuite", name=asked.report.stem)
    with ThreadPoolExecutor(asked.jobs) as pool:
        for cases in pool.map(lambda chunk: run(chunk, deadline), chunks):
            whole.extend(cases)
    ElementTree.ElementTree(whole).write(asked.report, encoding="utf-8", xml_declaration=True)
    failures, skips = (sum(1 for case in whole if case.find(tag) is not None) for tag in ("failure", "skipped"))
    print(f"{len(whole) - failures - skips} passed, {failures} failed, {skips} skipped")
    return 1 if failures or not len(whole) else 0


if __name__ == "__main__":
    sys.exit(main())
