#!/usr/bin/python3
"""Adds up what the suites reported.

Usage: summary.py DIRECTORY

Each suite left SUITE.xml (JUnit, from ctest or pytest) or SUITE.log (`ok N - what`,
`not ok N - what`, `ok N - what # SKIP reason`, and at the end `N passed, N failed,
N skipped`, as tests/arrows and tests/vm/run print it).  A suite that broke off before it
could report left SUITE.broken, whose text says how.

Prints a table, every failure and every skip with its reason, and as the last line
`N passed, N failed, N skipped`.  Exits 1 when anything failed.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
SKIPPED = re.compile(r"^ok \d+ - (.+) # SKIP (.+)$", re.M)
FAILED = re.compile(r"^not ok (?:\d+ )?- (.+)$", re.M)


@dataclass
class Suite:
    name: str
    passed: int = 0
    failures: list = field(default_factory=list)
    skips: list = field(default_factory=list)


def gtest_skip_reason(output):
    """The line after GoogleTest's `file:line: Skipped`."""
    lines = (output or "").splitlines()
    for i, line in enumerate(lines):
        if line.endswith(": Skipped") and i + 1 < len(lines):
            return lines[i + 1].strip()
    return "no reason given"


def pytest_skip_reason(skipped):
    return skipped.get("message") or "no reason given"


def from_junit(path):
    suite = Suite(path.stem)
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name')}".removeprefix(".")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            suite.failures.append(name)
        elif skipped is None:
            suite.passed += 1
        elif case.get("status") == "notrun":  # ctest
            suite.skips.append(f"{case.get('name')}: {gtest_skip_reason(case.findtext('system-out'))}")
        else:
            suite.skips.append(f"{name}: {pytest_skip_reason(skipped)}")
    return suite


def from_log(path):
    text = path.read_text(errors="replace")
    counts = COUNTS.findall(text)
    skips = [f"{name}: {reason}" for name, reason in SKIPPED.findall(text)]
    suite = Suite(path.stem, skips=skips, failures=FAILED.findall(text))
    if not counts:
        suite.failures.append("it ended without its counts")
        return suite
    passed, failed, skipped = map(int, counts[-1])
    suite.passed = passed
    suite.failures += ["(unnamed)"] * (failed - len(suite.failures))
    suite.skips += ["(unnamed)"] * (skipped - len(suite.skips))
    return suite


def suites(directory):
    found = {path.stem: from_junit(path) for path in directory.glob("*.xml")}
    found |= {path.stem: from_log(path) for path in directory.glob("*.log")}
    for path in directory.glob("*.broken"):
        found.setdefault(path.stem, Suite(path.stem)).failures.append(path.read_text().strip())
    return [found[name] for name in sorted(found)]


def main():
    everything = suites(Path(sys.argv[1]))
    print(f"\n{'suite':<16} passed  failed  skipped")
    for suite in everything:
        print(f"{suite.name:<16} {suite.passed:6}  {len(suite.failures):6}  {len(suite.skips):7}")
    for suite in everything:
        for failure in suite.failures:
            print(f"failed   {suite.name}: {failure}")
    for suite in everything:
        for skip in suite.skips:
            print(f"skipped  {suite.name}: {skip}")
    passed, failed, skipped = (
        sum(s.passed for s in everything),
        sum(len(s.failures) for s in everything),
        sum(len(s.skips) for s in everything),
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
