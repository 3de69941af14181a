"""tests/lib/gtest.py and tests/lib/summary.py: what a program of tests says, and what it could not say, is counted."""

import subprocess
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parents[1] / "lib"

PROGRAM = """#!/bin/bash
case $1 in
--gtest_list_tests) printf 'Good.\\n  One\\n  Two  # GetParam() = 2\\nBad.\\n  Three\\nGone.\\n  Four\\n'; exit ;;
esac
report=${2#*xml:}
case $1 in
*Good.One:Good.Two)
    cat > "$report" <<END
<testsuites><testsuite name="Good"><testcase name="One" status="run" result="completed"/>
<testcase name="Two" status="run" result="skipped"><skipped message="here.cpp:1&#x0A;no such kernel"/></testcase>
</testsuite></testsuites>
END
    ;;
*Bad.Three)
    echo '<testsuites><testsuite name="Bad"><testcase name="Three" result="completed">' > "$report"
    echo '<failure message="here.cpp:2&#x0A;Expected: 1"/></testcase></testsuite></testsuites>' >> "$report"
    exit 1 ;;
*Gone.Four) printf '[ RUN      ] Gone.Four\\n\\x01ERROR: AddressSanitizer: heap-use-after-free\\n'; kill -ABRT $$ ;;
esac
"""


@pytest.fixture
def build(tmp_path):
    program = tmp_path / "tests" / "rules_test"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return tmp_path


def run(build, *arguments):
    reports = build / "reports"
    reports.mkdir(exist_ok=True)
    asked = [LIB / "gtest.py", "--build-dir", build, "--report", reports / "unit.xml", *arguments, "rules"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    summed = subprocess.run([LIB / "summary.py", reports], capture_output=True, text=True, check=False)
    return ended, summed


def test_every_outcome_is_counted_and_said(build):
    ended, summed = run(build)
    assert ended.returncode == 1
    assert summed.returncode == 1
    assert summed.stdout.splitlines()[-1] == "1 passed, 2 failed, 1 skipped"
    assert "skipped  unit: rules.Good.Two: no such kernel" in summed.stdout
    assert "failed   unit: rules.Bad.Three\n    here.cpp:2\n    Expected: 1" in summed.stdout
    assert "failed   unit: rules.Gone.(1 tests)\n    ?ERROR: AddressSanitizer: heap-use-after-free" in summed.stdout


def test_what_has_not_begun_in_time_is_skipped(build):
    ended, summed = run(build, "--minutes", "0")
    assert ended.returncode == 0
    assert "skipped  unit: rules.Bad.Three: the minutes for this suite are over" in summed.stdout
    assert summed.stdout.splitlines()[-1] == "0 passed, 0 failed, 4 skipped"


def test_what_is_left_out_is_not_run(build):
    _, summed = run(build, "--except", r"\.(Bad|Gone)\.")
    assert summed.returncode == 0
    assert summed.stdout.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
