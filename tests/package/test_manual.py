"""The manual pages against the program: what it knows stands there, and nothing else."""

import json
import os
import re
import subprocess

import pytest

from lib.checked import check
from lib.page import bold, rendered, sections
from lib.programs import BUILD, INCIDENTCTL, INCIDENTD, PAGES, SOURCE, output

NAMES = ["incidentd.8", "incidentctl.1", "incidentd.toml.5", "incident-rules.5", "incident-bundle.5"]
NO_SUCH_KEY = "q" * 40  # near to nothing, so the hint lists all keys there are


# ---- rendering


@pytest.mark.parametrize("name", NAMES)
def test_renders_without_warnings(name):
    page = str(PAGES / name)
    environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    man = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], env=environment,
                         capture_output=True, text=True, check=True)
    assert man.stderr == ""
    assert len(man.stdout.splitlines()) > 40
    groff = subprocess.run(["groff", "-K", "utf8", "-t", "-man", "-ww", "-Tutf8", page],
                           capture_output=True, text=True, check=True)
    assert groff.stderr == ""
    lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False)
    # scdoc writes a .PP before each heading and list; it has no effect
    assert [line for line in lint.stdout.splitlines() if "skipping paragraph macro" not in line] == []


def test_all_of_them_are_here():
    assert sorted(path.name for path in PAGES.glob("*.[158]")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_has_what_a_page_needs(name):
    for wanted in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "SEE ALSO"):
        assert wanted in sections(name), wanted


@pytest.mark.parametrize("name", NAMES)
def test_refers_to_pages_of_ours_that_exist(name):
    text = " ".join(line.replace("*", "") for _, line in rendered(name))
    for page, section in re.findall(r"\b(incident[a-z.-]*)\((\d)\)", text):
        assert f"{page}.{section}" in NAMES


# ---- options and verbs


def options_of_help(text):
    """{name: whether it takes a value}"""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"  (-[-\w,]+)(?:[ =]([A-Z]\S*))?", line):
            for name in match[1].split(","):
                found[name] = match[2] is not None
    return found


def options_of_page(heads):
    found = {}
    for head in heads:
        for name in bold(head):
            if name.startswith("-"):
                found[name] = bool(re.search(r"(?<![-*])\b[A-Z]+\b", head.replace(f"*{name}*", "")))
    return found


def verbs_of_help():
    text = output(INCIDENTCTL, "--help")
    return re.findall(r"^  (\w+)", text[text.index("\nVerbs:"):text.index("\nExit codes")], re.M)


def test_options_of_incidentd():
    assert options_of_page(sections("incidentd.8")["OPTIONS"]) == options_of_help(output(INCIDENTD, "--help"))


def test_options_of_incidentctl():
    assert options_of_page(sections("incidentctl.1")["OPTIONS"]) == options_of_help(output(INCIDENTCTL, "--help"))


def test_verbs():
    described = [name.split("/")[1].split()[0] for name in sections("incidentctl.1") if name.startswith("VERBS/")]
    assert described == verbs_of_help()


@pytest.mark.parametrize("verb", verbs_of_help())
def test_options_of_a_verb(verb):
    text = output(INCIDENTCTL, verb, "--help")
    known = {name: value for name, value in options_of_help(text).items() if name not in ("-h", "--help")}
    title, heads = next((title, heads) for title, heads in sections("incidentctl.1").items()
                        if re.match(rf"VERBS/{verb}\b", title))
    assert options_of_page(heads) == known
    usage = re.search(r"^Usage: incidentctl \w+ \[OPTIONS\] ?(.*)$", text, re.M)[1]
    # a required option stands in the title as well
    assert re.sub(r" --\w+ [A-Z]+$", "", title.removeprefix(f"VERBS/{verb}").strip()) == usage


def test_exit_codes():
    ended = {*re.findall(r"(\d) [a-z]", output(INCIDENTCTL, "--help").split("Exit codes:")[1])}
    for page in ("incidentctl.1", "incidentd.8"):
        assert {head for head in sections(page)["EXIT STATUS"]} == ended


# ---- configuration and rules: the parser says itself which keys it knows


def known_keys(said, where):
    match = re.search(rf"unknown key '{NO_SUCH_KEY}' in {re.escape(where)}\n(?:.*\n){{2}}.*known keys: (.*)", said)
    assert match, f"no list of the keys in {where}:\n{said}"
    return set(match[1].split(", "))


def keys_of_page(heads):
    """{key: the rest of its line}"""
    return {bold(head)[0]: head.split("=", 1)[1] for head in heads if re.match(r"\*[a-z_]+\* =", head)}


def config_tables(tmp_path):
    tables = known_keys(check(tmp_path, f"{NO_SUCH_KEY} = 1"), "the configuration")
    return {table: known_keys(check(tmp_path, f"[{table}]\n{NO_SUCH_KEY} = 1"), f"[{table}]") for table in tables}


def test_configuration_keys(tmp_path):
    described = {title.strip("[]"): set(keys_of_page(heads)) for title, heads in sections("incidentd.toml.5").items()
                 if title.startswith("[")}
    assert described == config_tables(tmp_path)


def limits_said(said):
    match = re.search(r"must be (\S+) to (\S+), found", said)
    return f"{match[1]} to {match[2]}" if match else None


def test_configuration_ranges(tmp_path):
    """A value far out of its range makes the parser say the range."""
    asked = 0
    for title, heads in sections("incidentd.toml.5").items():
        for key, rest in keys_of_page(heads).items() if title.startswith("[") else ():
            kind = re.match(r" ([A-Z]+)", rest)[1]
            too_much = {"NUMBER": "99999999999", "SIZE": '"9999TiB"', "DURATION": '"9999d"'}.get(kind)
            if too_much is None:
                continue
            said = limits_said(check(tmp_path, f"{title}\n{key} = {too_much}"))
            assert said and said in rest, f"{title} {key}: the program says {said}, the page {rest}"
            asked += 1
    assert asked >= 12


def test_configuration_defaults_are_those_of_the_shipped_file():
    shipped, table = {}, ""
    for line in (SOURCE / "systemd/incidentd.toml").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\[(\w+)\]", line):
            table = match[1]
        elif match := re.match(r"#(\w+) = (.+)$", line):
            shipped[table, match[1]] = match[2]
    described = {}
    for title, heads in sections("incidentd.toml.5").items():
        for key, rest in keys_of_page(heads).items() if title.startswith("[") else ():
            described[title.strip("[]"), key] = re.search(r"\(default: ([^;)]+)", rest)[1]
    assert set(described) == set(shipped)
    # of lists the file shows an example
    assert {key: value for key, value in described.items() if value != "none"} == \
           {key: value for key, value in shipped.items() if described[key] != "none"}


def rule_kinds(tmp_path):
    said = check(tmp_path, rule=f'[[rule]]\nname = "x"\non = "{NO_SUCH_KEY}"\n')
    return re.search(r"known kinds: (.*)", said)[1].split(", ")


def described_kinds():
    """{kind: its entries}"""
    found = {}
    for title, heads in sections("incident-rules.5").items():
        if title.startswith("KINDS/"):
            for kind in title.removeprefix("KINDS/").split(", "):
                found[kind] = keys_of_page(heads)
    return found


def test_kinds_of_rules(tmp_path):
    assert set(described_kinds()) == set(rule_kinds(tmp_path))


COMMON = ["", "How many matches make a firing"]


def common_keys(*subsections):
    found = set()
    for subsection in subsections:
        title = "KEYS OF EVERY RULE" + (f"/{subsection}" if subsection else "")
        found |= set(keys_of_page(sections("incident-rules.5")[title]))
    return found


def test_keys_of_each_kind(tmp_path):
    for kind, keys in described_kinds().items():
        known = known_keys(check(tmp_path, rule=f'[[rule]]\nname = "x"\non = "{kind}"\n{NO_SUCH_KEY} = 1\n'), "rule 'x'")
        expected = set(keys) | (common_keys("") if kind in ("all", "any") else common_keys(*COMMON))
        if kind == "any":
            expected.discard("within")
        if kind not in ("latency", "reclaim", "txg_sync", "syscall", "blocked", "block_io", "all", "any"):
            expected.discard("stalled")  # takes no time, as the page says
        assert expected == known, kind


@pytest.mark.parametrize("table", ["match", "limit", "context", "dump"])
def test_keys_of_a_rules_tables(tmp_path, table):
    said = check(tmp_path, rule=f'[[rule]]\nname = "x"\non = "signal"\nfatal = false\n{table} = {{ {NO_SUCH_KEY} = 1 }}\n')
    assert common_keys(table.capitalize()) == known_keys(said, f"'{table}' of rule 'x'")


def test_keys_of_sender(tmp_path):
    said = check(tmp_path, rule=f'[[rule]]\nname = "x"\non = "signal"\nsender = {{ {NO_SUCH_KEY} = 1 }}\n')
    text = " ".join(line for _, line in rendered("incident-rules.5"))
    described = re.search(r"Who sent it: a table of (.*?) \*self\* \*=\*", text)[1]
    assert set(bold(described)) == known_keys(said, "'sender' of rule 'x'")


def test_rule_ranges(tmp_path):
    """As of the configuration; a range with a condition beside it is the one without."""
    asked = 0
    page = sections("incident-rules.5")
    places = [(table.lower(), keys_of_page(page[f"KEYS OF EVERY RULE/{table}"])) for table in ("Limit", "Context")]
    places += [("", keys_of_page(page["KEYS OF EVERY RULE/How many matches make a firing"]))]
    places += [(kind, keys) for kind, keys in described_kinds().items()]
    for place, keys in places:
        for key, rest in keys.items():
            kind = re.match(r" ([A-Z]+)", rest)[1]
            too_much = {"NUMBER": "99999999999", "SIZE": '"9999TiB"', "DURATION": '"9999d"'}.get(kind)
            if too_much is None or " to " not in rest or place == "any":
                continue
            on = place if place in described_kinds() else "syscall"
            inside = f"{place} = {{ {key} = {too_much} }}" if place in ("limit", "context") else f"{key} = {too_much}"
            if place == "txg_sync" or place == "blocked":
                inside += '\nwhen = "return"'
            said = limits_said(check(tmp_path, rule=f'[[rule]]\nname = "x"\non = "{on}"\n{inside}\n'))
            assert said and said in rest, f"{place} {key}: the program says {said}, the page {rest}"
            asked += 1
    assert asked >= 17


def test_examples_of_rules_are_good(tmp_path):
    text = (SOURCE / "systemd/man/incident-rules.5.scd").read_text(encoding="utf-8")
    for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S):
        said = check(tmp_path, '[safety]\nallow_dump = true\n', block)
        assert " error: " not in said, block + said


# ---- bundles


def listed_files():
    found = set()
    for head in sections("incident-bundle.5")["FILES"]:
        found |= set(bold(head))
    return found


def test_files_that_the_samples_have_are_listed():
    listed = listed_files()
    for sample in (SOURCE / "tests/data/bundles").iterdir():
        for file in sample.rglob("*") if sample.is_dir() else ():
            if file.is_file():
                top = file.relative_to(sample).parts[0]
                assert top in listed or f"{top}/" in listed, file


def test_keys_of_the_sample_are_listed():
    sample = SOURCE / "tests/data/bundles/crash"
    described = {word for head in sections("incident-bundle.5")["INCIDENT.JSON"] for word in bold(head)}
    assert set(json.loads((sample / "incident.json").read_text(encoding="utf-8"))) <= described


# ---- what is shipped


def test_compressed_pages_are_those():
    for name in NAMES:
        assert output("gzip", "-dc", PAGES / f"{name}.gz") == (PAGES / name).read_text(encoding="utf-8")
    assert BUILD.is_dir()
