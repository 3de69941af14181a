"""README.md keeps its promises: a newcomer copies its examples, follows its links, and reads it in one sitting."""

import re

import pytest

from lib.checked import checked
from lib.programs import SOURCE

README = (SOURCE / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", README, re.M | re.S)
RULES = [text for text in EXAMPLES if "[[rule]]" in text]
CONFIGURATIONS = [text for text in EXAMPLES if "[[rule]]" not in text]
MAN = SOURCE / "systemd/man"
# Whoever meets the project reads this file first and whole; what is looked up stands in the manual pages.
ONE_SITTING = 300


def test_is_read_in_one_sitting():
    assert len(README.splitlines()) <= ONE_SITTING


def test_has_examples_of_both_kinds():
    assert RULES and CONFIGURATIONS
    kinds = re.findall(r'^on\s*= "(\w+)"', "".join(RULES), re.M)
    assert len(kinds) == len(re.findall(r"^\[\[rule\]\]", "".join(RULES), re.M))
    assert {"signal", "oom", "latency", "syscall", "memory"} <= set(kinds)


def test_its_rules_and_configuration_are_good_together(tmp_path):
    """As somebody has them who copies all: no error, and no warning either."""
    status, said = checked(tmp_path, "".join(CONFIGURATIONS), "".join(RULES))
    assert status == 0, said
    assert "error:" not in said and "warning:" not in said, said


@pytest.mark.parametrize("text", RULES)
def test_its_rules_are_good_without_its_configuration(tmp_path, text):
    """dump is then warned of."""
    status, said = checked(tmp_path, rule=text)
    assert status == 0, said


def test_a_mistake_in_an_example_would_be_seen(tmp_path):
    broken = "".join(RULES).replace("threshold", "treshold")
    status, said = checked(tmp_path, "".join(CONFIGURATIONS), broken)
    assert status == 1 and "error:" in said
    # and a dump that nothing allows is at least a warning
    assert "warning:" in checked(tmp_path, rule="".join(RULES))[1]


def linked_files(text):
    return [target.split("#")[0] for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text) if target.split("#")[0]]


@pytest.mark.parametrize("page", ["README.md", "tests/bench/README.md", "tests/vm/README.md"])
def test_links_lead_to_files(page):
    where = SOURCE / page
    for target in linked_files(where.read_text(encoding="utf-8")):
        assert (where.parent / target).exists(), f"{page} links to {target}"


def test_links_into_itself_lead_to_headings():
    headings = {re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                for line in README.splitlines() if line.startswith("#")}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= headings


def test_each_manual_page_is_named():
    named = {f"{page}.{section}" for page, section in re.findall(r"\b(incident[a-z.-]*)\((\d)\)", README)}
    assert named == {path.name.removesuffix(".scd") for path in MAN.glob("*.scd")}


def test_what_it_says_to_run_is_there():
    """Scripts and tests of its command blocks."""
    blocks = "".join(text for kind, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S) if not kind)
    named = re.findall(r"(?<![\w/])(tests/[\w/.]+)", blocks)
    assert "tests/run" in named and "tests/demo" in named
    for path in named:
        assert (SOURCE / path).exists(), path
    assert (SOURCE / "tests/vm/cases" / (re.search(r"tests/vm/run (\w+)", blocks)[1] + ".sh")).is_file()
