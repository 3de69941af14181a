"""Functions are named in rules as stacks show them, and told by their names, whatever the compiler made of those."""

import re
import subprocess
from functools import cache

import pytest

from lib.compiled import compiled
from lib.daemon import CRASH_RULE, Daemon
from lib.victims import run, running
from lib.wait import until


def rule(name, program, symbol):
    return (
        f'[[rule]]\nname = "{name}"\non = "latency"\nprobe = "uprobe:{program}:{symbol}"\nthreshold = "50ms"\n'
        f'match = {{ exe = ["{program}"] }}\nlimit = {{ cooldown = "1h", by = "process" }}\n'
    )


@cache
def programs():
    return {
        "cpp": compiled("named.cpp", "-O2"),
        "legacy": compiled("named.rs", "-O", "-Csymbol-mangling-version=legacy"),
        "v0": compiled("named.rs", "-O", "-Csymbol-mangling-version=v0", "-Cstrip=debuginfo"),
    }


def mangled(program, part):
    listed = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    (symbol,) = {word for word in listed.split() if re.search(part, word)}
    return symbol


# name of the rule: program, what its probe says, the function as the headline names it
RULES = {
    "as-shown": ("cpp", "store(std::vector<std::string> const&)", "store"),
    "as-mangled": ("cpp", "^_Z5store", "store"),
    "string": ("cpp", "fetch(std::string const&)", "fetch"),
    "copy": ("cpp", "scan", "scan"),
    "legacy": ("legacy", "named::stock::count", "count"),
    "legacy-mangled": ("legacy", "^_ZN.*5stock5count17h", "count"),
    "v0": ("v0", "named::stock::count", "count"),
    "v0-mangled": ("v0", "^_R.*5stock5count", "count"),
}


@pytest.fixture(scope="module")
def watcher(tmp_path_factory):
    rules = [CRASH_RULE]
    for name, (which, symbol, _) in RULES.items():
        program = programs()[which]
        rules.append(rule(name, program, mangled(program, symbol) if symbol.startswith("^") else symbol))
    watching = Daemon(tmp_path_factory.mktemp("named"), rules="\n".join(rules)).start()
    yield watching
    watching.stop()


@pytest.mark.parametrize("name", RULES)
def test_a_slow_call_is_told_by_the_functions_name(watcher, name):
    which, _, function = RULES[name]

    def told():
        return [i for i in watcher.incidents() if i.record["rule"] == name]

    with running(programs()[which], stdin=subprocess.PIPE) as process:
        process.stdin.write(b"x" * 100)
        process.stdin.flush()
        (state,) = [one for one in watcher.ctl.json("status")["rules"] if one["name"] == name]
        assert state["state"] != "unavailable", state["reason"]
        incident = until(told, "a slow call to be told", watcher.tail)[0]
    headline = incident.record["summary"]
    assert re.search(rf"\bin (\S*::)?{function}$|\bin (\S*::)?{function}[^\w]", headline), headline
    assert not re.search(r"h[0-9a-f]{16}|_R|const&", headline), headline


def test_stacks_show_names_of_both_of_rusts_manglings(watcher):
    for which in ("legacy", "v0"):
        incident = watcher.explained_incident(run(programs()[which], "dies").pid)
        shown = [frame["symbol"] or "" for frame in incident.crashed["stack"]["frames"]]
        assert any("stock::count" in one for one in shown), shown
        assert not [one for one in shown if re.search(r"^_R|::h[0-9a-f]{16}", one)], shown
