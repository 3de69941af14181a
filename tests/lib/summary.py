#!/usr/bin/python3
"""Adds up what the suites reported.

Usage: summary.py DIRECTORY

Each suite left SUITE.xml (JUnit, from gtest.py or pytest) or SUITE.log (`ok N - what`,
`not ok N - what`, `ok N - what # SKIP reason`, and at the end `N passed, N failed,
N skipped`, as tests/arrows and tests/vm/run print it).  A suite that broke off before it
could report left SUITE.broken, whose text says how.

Prints a table, every skip with its reason, then every failure with the beginning of its
message, and as the last line `N passed, N failed, N skipped`.  The failures come last, for
a log of which only the end was kept must still say what failed.  Exits 1 when anything failed.
"""

import itertools
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
SKIPPED = re.compile(r"^ok \d+ - (.+) # SKIP (.+)$", re.M)
FAILED = re.compile(r"^not ok (?:\d+ )?- (.+)$")
# Where the output of a GoogleTest program begins to say what went wrong.
WENT_WRONG = re.compile(r"Sanitizer|runtime error:|terminate called|Assertion")

MESSAGE_LINES = 12
LOG_LINES = 10


@dataclass
class Failure:
    name: str
    message: list = field(default_factory=list)  # of lines


@dataclass
class Suite:
    name: str
    passed: int = 0
    failures: list = field(default_factory=list)
    skips: list = field(default_factory=list)


def message_of(failed):
    """The beginning of what a failed test case says, and where it says it."""
    message = (failed.get("message") or "").splitlines()
    text = (failed.text or "").strip().splitlines()
    if text:  # pytest: a traceback, whose last line is the place
        return [*(message or text)[:MESSAGE_LINES], text[-1]]
    start = next((i for i, line in enumerate(message) if WENT_WRONG.search(line)), 0)
    return message[start : start + MESSAGE_LINES]


def from_junit(path):
    suite = Suite(path.stem)
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name')}".removeprefix(".")
        skipped = case.find("skipped")
        failed = next((one for one in case if one.tag in ("failure", "error")), None)
        if failed is not None:
            suite.failures.append(Failure(name, message_of(failed)))
        elif skipped is None:
            suite.passed += 1
        else:
            suite.skips.append(f"{name}: {skipped.get('message') or 'no reason given'}")
    return suite


def failures_of_log(lines):
    """Each with the comment below it, or where there is none with the lines above it."""
    for i, line in enumerate(lines):
        found = FAILED.match(line)
        if found:
            below = itertools.takewhile(lambda one: one.startswith("#"), lines[i + 1 :])
            message = list(itertools.islice(below, MESSAGE_LINES)) or lines[max(0, i - LOG_LINES) : i]
            yield Failure(found[1], message)


def from_log(path):
    text = path.read_text(errors="replace")
    lines = text.splitlines()
    counts = COUNTS.findall(text)
    skips = [f"{name}: {reason}" for name, reason in SKIPPED.findall(text)]
    suite = Suite(path.stem, skips=skips, failures=list(failures_of_log(lines)))
    if not counts:
        suite.failures.append(Failure("it ended without its counts", lines[-LOG_LINES:]))
        return suite
    passed, failed, skipped = map(int, counts[-1])
    suite.passed = passed
    suite.failures += [Failure("(unnamed)")] * (failed - len(suite.failures))
    suite.skips += ["(unnamed)"] * (skipped - len(suite.skips))
    return suite


def suites(directory):
    found = {path.stem: from_junit(path) for path in directory.glob("*.xml")}
    found |= {path.stem: from_log(path) for path in directory.glob("*.log")}
    for path in directory.glob("*.broken"):
        found.setdefault(path.stem, Suite(path.stem)).failures.append(Failure(path.read_text().strip()))
    return [found[name] for name in sorted(found)]


def main():
    everything = suites(Path(sys.argv[1]))
    print(f"\n{'suite':<16} passed  failed  skipped")
    for suite in everything:
        print(f"{suite.name:<16} {suite.passed:6}  {len(suite.failures):6}  {len(suite.skips):7}")
    for suite in everything:
        for skip in suite.skips:
            print(f"skipped  {suite.name}: {skip}")
    for suite in everything:
        for failure in suite.failures:
            print(f"failed   {suite.name}: {failure.name}")
            for line in filter(None, failure.message):
                print(f"    {line}")
    passed, failed, skipped = (
        sum(s.passed for s in everything),
        sum(len(s.failures) for s in everything),
        sum(len(s.skips) for s in everything),
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
