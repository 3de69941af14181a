"""Functions are named in rules as stacks show them, and told by their names, whatever the compiler made of those."""

import re
import subprocess
from functools import cache

import pytest

from lib.compiled import compiled
from lib.daemon import CRASH_RULE, Daemon
from lib.victims import run, running
from lib.wait import until


def rule(name, program, function):
    return (
        f'[[rule]]\nname = "{name}"\non = "latency"\nprobe = "uprobe:{program}:{function}"\nthreshold = "50ms"\n'
        f'match = {{ exe = ["{program}"] }}\nlimit = {{ cooldown = "1h", by = "process" }}\n'
    )


@cache
def programs():
    return {
        "cpp": compiled("named.cpp", "-O2"),
        "rust": compiled("named.rs", "-O"),
        "rust-v0": compiled("named.rs", "-O", "-Csymbol-mangling-version=v0", "-Cstrip=debuginfo"),
    }


def symbol(program, pattern, *options):
    """The program's one symbol of which that holds."""
    listed = subprocess.run(["nm", *options, program], check=True, capture_output=True, text=True).stdout
    (found,) = {name for line in listed.splitlines() if re.search(pattern, name := line.split(None, 2)[-1])}
    return found


# Each of another function, which alone is called: of rules that fire together there is one bundle.
# name of the rule: program, what its probe says, the function as the headline names it
RULES = {
    "whole": ("cpp", lambda program: symbol(program, r"^keep\(", "-C"), "keep"),
    "mangled": ("cpp", lambda program: symbol(program, "^_Z5store"), "store"),
    "string": ("cpp", lambda _: "fetch(std::string const&)", "fetch"),
    "copy": ("cpp", lambda _: "walk", "walk"),
    "rust": ("rust", lambda _: "named::stock::count", "count"),
    "rust-mangled": ("rust", lambda program: symbol(program, "5stock5order"), "order"),
    "rust-v0": ("rust-v0", lambda _: "named::stock::count", "count"),
    "rust-v0-mangled": ("rust-v0", lambda program: symbol(program, "5stock5order"), "order"),
}


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    rules = [CRASH_RULE]
    rules += [rule(name, programs()[which], says(programs()[which])) for name, (which, says, _) in RULES.items()]
    watching = Daemon(tmp_path_factory.mktemp("named"), rules="\n".join(rules)).start()
    yield watching
    watching.stop()


@pytest.mark.parametrize("name", RULES)
def test_a_slow_call_is_told_by_the_functions_name(watcher, name):
    which, _, function = RULES[name]

    def told():
        return [i for i in watcher.incidents() if i.record["rule"] == name]

    with running(programs()[which], stdin=subprocess.PIPE) as process:
        process.stdin.write(function[0].encode() * 100)
        process.stdin.flush()
        (state,) = [one for one in watcher.ctl.json("status")["rules"] if one["name"] == name]
        assert state["state"] != "unavailable", state["reason"]
        incident = until(told, "a slow call to be told", watcher.tail)[0]
    headline = incident.record["summary"]
    assert re.search(rf"\bin (\S*::)?{function}$|\bin (\S*::)?{function}[^\w]", headline), headline
    assert not re.search(r"h[0-9a-f]{16}|_R|const&", headline), headline


def test_stacks_show_names_of_both_of_rusts_manglings(watcher):
    for which in ("rust", "rust-v0"):
        incident = watcher.explained_incident(run(programs()[which], "dies").pid)
        shown = [frame["symbol"] or "" for frame in incident.crashed["stack"]["frames"]]
        assert any("stock::count" in one for one in shown), shown
        assert not [one for one in shown if re.search(r"^_R|::h[0-9a-f]{16}", one)], shown
