"""Bundles from elsewhere, a byte or a value of which somebody has changed: every verb answers or refuses.

A drawn sample of some seconds; INCIDENT_BUNDLE_MUTANTS=all for 600.
"""

import os
import random
import re
import shutil
import time

import pytest

from lib.ctl import Ctl
from lib.daemon import SANITIZER_REPORT
from lib.programs import victim
from lib.victims import run

SECONDS = 20
ALL = 600
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
RULES = '[[rule]]\nname = "edited"\non = "signal"\nsignals = ["SIGSEGV"]\n'


@pytest.fixture(scope="module")
def incident(recorder):
    return recorder.explained_incident(run(victim("siblings"), "2", "1", "0", "fault").pid)


def flip(draw, data):
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def cut(draw, data):
    return data[: draw.randrange(len(data))]


def insert(draw, data):
    at = draw.randrange(len(data))
    return data[:at] + draw.randbytes(draw.choice((1, 4, 300, 70_000))) + data[at:]


def double(draw, data):
    begin, end = sorted(draw.randrange(len(data)) for _ in range(2))
    return data[:end] + data[begin:]


def number(draw, data):
    """One of the numbers of a text is another."""
    found = list(re.finditer(rb"-?\d+", data))
    if not found:
        return flip(draw, data)
    one = draw.choice(found)
    other = draw.choice((b"-1", b"18446744073709551615", b"1e999", b"4294967296", b"0", b"null", b"[]", b'"7"'))
    return data[: one.start()] + other + data[one.end() :]


def words(draw, data):
    """One of the strings of a text is another."""
    found = list(re.finditer(rb'"[^"\n]*"', data))
    if not found:
        return flip(draw, data)
    one = draw.choice(found)
    other = draw.choice((b'"\\u001b[2J\\u009b31m"', b'"\\ud800"', b'"../../../etc/passwd"', b"{}", b'"' + b"x" * 100_000 + b'"', b"7"))
    return data[: one.start()] + other + data[one.end() :]


MUTATIONS = (flip, cut, insert, double, number, words)


def mutate(draw, bundle):
    """Changes one of its files; which one, from the bundle."""
    files = sorted(path for path in bundle.rglob("*") if path.is_file() and path.stat().st_size)
    path = draw.choice(files)
    before = path.read_bytes()
    while (after := draw.choice(MUTATIONS)(draw, before)) == before:
        pass
    path.write_bytes(after)
    return path.relative_to(bundle)


def assert_answers(ctl, *verb):
    done = ctl.run(*verb, text=True, errors="surrogateescape")
    said = f"{verb}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode in (0, 1, 2), said
    assert not SANITIZER_REPORT.search(done.stderr), said
    assert not CONTROL.search(done.stdout + done.stderr), said
    return done


def test_every_verb_answers_or_refuses(incident, tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "edited.toml").write_text(RULES)
    seed = int(os.environ.get("INCIDENT_BUNDLE_MUTANTS_SEED") or random.randrange(1 << 32))
    print(f"INCIDENT_BUNDLE_MUTANTS_SEED={seed}")
    draw = random.Random(seed)
    whole = os.environ.get("INCIDENT_BUNDLE_MUTANTS") == "all"
    end = time.monotonic() + SECONDS
    tried = 0
    while tried < ALL and (whole or tried == 0 or time.monotonic() < end):
        state = tmp_path / "state"
        bundle = state / "incidents" / incident.id
        shutil.copytree(incident.path, bundle)
        changed = mutate(draw, bundle)
        ctl = Ctl(state)
        verified = assert_answers(ctl, "verify", incident.id)
        if not changed.name.startswith("MANIFEST"):
            assert verified.returncode == 1 and str(changed) in verified.stdout + verified.stderr, changed
        for verb in (
            ["list"],
            ["info", incident.id],
            ["--json", "info", incident.id],
            ["timeline", incident.id],
            ["threads", incident.id],
            ["gdb", "--mini", incident.id, "--", "-batch", "-ex", "incident summary", "-ex", "bt 3"],
            ["core", incident.id, "--wait", "1s", "-o", tmp_path / "core"],
            ["replay", "--rules", rules, incident.id],
            ["analyse", incident.id],
            ["pin", incident.id],
        ):
            assert_answers(ctl, *verb)
        shutil.rmtree(state)
        (tmp_path / "core").unlink(missing_ok=True)
        tried += 1
    print(f"{tried} of {ALL} mutants, 11 verbs each")
