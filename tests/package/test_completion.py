"""Completion: what the program offers, and that bash and zsh show it and put it in."""

import os
import re
import shutil
import subprocess

import pytest

from lib.programs import INCIDENTCTL, SOURCE, add_bundle, output
from lib.terminal import Terminal

OLD = "20261120T111111.111Z-crash-python3-4711-aaaaaa"
NEW = "20261121T222222.222Z-oom-other-4712-bbbbbb"
VERBS = re.findall(r"^  (\w+)", output(INCIDENTCTL, "--help").split("\nVerbs:")[1].split("\nExit")[0], re.M)


@pytest.fixture
def state(tmp_path):
    add_bundle(tmp_path / "state", OLD)
    add_bundle(tmp_path / "state", NEW)
    return tmp_path / "state"


@pytest.fixture
def environment(tmp_path):
    """incidentctl on PATH under its name, as the scripts call it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/incidentctl").symlink_to(INCIDENTCTL)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/a file").touch()
    (tmp_path / "here/a-directory").mkdir()
    return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def offered(*words, describe=False):
    options = ["--describe"] if describe else []
    return output(INCIDENTCTL, "complete", *options, "--", *words).splitlines()


# ---- what the program offers


def test_verbs():
    assert offered("") == VERBS
    assert offered("t") == [verb for verb in VERBS if verb.startswith("t")]
    assert "complete" not in VERBS


def test_every_option_of_every_verb():
    for verb in VERBS:
        text = output(INCIDENTCTL, verb, "--help")
        own = [name for names in re.findall(r"^  (-[-\w,]+)", text, re.M) for name in names.split(",")]
        assert offered(verb, "-") == own + ["--state", "--json"], verb


def test_options_before_a_verb():
    assert offered("--") == ["--help", "--version", "--state", "--json"]


def test_an_option_is_offered_once():
    assert "--reverse" not in offered("list", "--reverse", "--")
    assert "--output" not in offered("core", "-o", "file", "--")
    assert "--rules" in offered("replay", "--rules", "dir", "--")  # may be given again


def test_incidents_newest_first(state):
    assert offered("--state", str(state), "info", "") == ["latest", NEW, OLD]
    assert offered(f"--state={state}", "info", "20261120") == [OLD]
    assert offered("info", "--state", "=", str(state), "2") == [NEW, OLD]  # bash takes --state=DIR apart


def test_incidents_are_described(state):
    lines = dict(line.split("\t") for line in offered("--state", str(state), "info", "", describe=True))
    assert lines["latest"]
    assert re.search("SIG", lines[OLD])


def test_one_incident_is_enough_but_for_replay(state):
    assert offered("--state", str(state), "info", OLD, "") == []
    assert offered("--state", str(state), "replay", OLD, "2") == [NEW, OLD]


def test_rules_of_incidents(state):
    assert "crash" in offered("--state", str(state), "list", "--rule", "")
    assert "crash" in offered("--state", str(state), "list", "--rule=cr")
    assert offered("--state", str(state), "list", "--rule", "=", "no-such") == []


def test_files_and_directories_are_the_shells():
    assert offered("--state", "") == [":directories"]
    assert offered("replay", "--rules", "") == [":directories"]
    assert offered("core", "-o", "") == [":files"]
    assert offered("gdb", "latest", "--", "-x", "") == [":files"]
    assert offered("info", "latest", "--", "") == []


def test_values_that_nobody_knows():
    assert offered("list", "--since", "") == []
    assert offered("wait", "--timeout", "") == []


def test_nothing_to_read_is_no_error(tmp_path):
    done = subprocess.run([INCIDENTCTL, "complete", "--", "--state", tmp_path / "none", "info", ""],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_others_get_no_incidents(state, tmp_path):
    for directory in (tmp_path, *tmp_path.parents):
        if directory.owner() == "root" and directory != tmp_path.anchor and "pytest" in str(directory):
            directory.chmod(0o755)
    state.chmod(0o700)
    program = shutil.copy(INCIDENTCTL, tmp_path / "incidentctl")
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program,
                           "complete", "--", "--state", state, "info", ""], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_hostile_text_is_escaped(state):
    add_bundle(state, "20261121T222222.333Z-crash-evil-1-cccccc", "hostile")
    for line in offered("--state", str(state), "info", "", describe=True):
        assert line.isprintable() or line.replace("\t", "", 1).isprintable()


# ---- the shells


BASH_READY = r"""
PS1='ready> '; bind 'set enable-bracketed-paste off'; bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'
bind 'set completion-query-items 0'
show() { printf '\n<%s>\n' "$READLINE_LINE"; }; bind -x '"\C-xp": show'
"""
ZSH_READY = r"""
PROMPT='ready> '; fpath=({directory} $fpath); autoload -Uz compinit; compinit -u -D
show() {{ print; print -r -- "<$BUFFER>" }}; zle -N show; bindkey '^Xp' show
LISTMAX=0; setopt no_list_beep no_list_ambiguous; zstyle ':completion:*' list-prompt ''
"""


@pytest.fixture
def bash(environment, tmp_path):
    start = tmp_path / "bashrc"
    start.write_text(BASH_READY + f"source {SOURCE}/systemd/completion/incidentctl.bash\n", encoding="utf-8")
    os.chdir(tmp_path / "here")
    with Terminal(["bash", "--rcfile", str(start), "-i"], environment) as shell:
        shell.until("ready> ")
        yield shell


@pytest.fixture
def zsh(environment, tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here")
    start = ZSH_READY.format(directory=SOURCE / "systemd/completion")
    (tmp_path / ".zshrc").write_text(start, encoding="utf-8")
    os.chdir(tmp_path / "here")
    with Terminal(["zsh", "-d", "-i"], {**environment, "ZDOTDIR": str(tmp_path)}) as shell:
        shell.until("ready> ")
        yield shell


def completed(shell, typed):
    """What Tab makes of it, and what was listed meanwhile."""
    shell.type(typed + "\t")
    shell.type("\x18p")
    listed, line = shell.until(r"\n<([^\n>]*)>")
    shell.type("\x15")  # clear the line
    return line[1].strip("\r"), listed


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_shell_completes(name, request, state):
    shell = request.getfixturevalue(name)
    for typed, expected in (
        ("incidentctl timel", "incidentctl timeline "),
        ("incidentctl list --rev", "incidentctl list --reverse "),
        (f"incidentctl --state {state} info 20261120", f"incidentctl --state {state} info {OLD} "),
        (f"incidentctl --state={state} info 20261120", f"incidentctl --state={state} info {OLD} "),
        (f"incidentctl --state {state} list --rule cra", f"incidentctl --state {state} list --rule crash "),
        (f"incidentctl --state {state} list --rule=cra", f"incidentctl --state {state} list --rule=crash "),
        ("incidentctl core -o a\\ f", "incidentctl core -o a\\ file "),
        ("incidentctl --state a", "incidentctl --state a-directory/"),
        ("incidentctl gdb latest -- -x a\\ f", "incidentctl gdb latest -- -x a\\ file "),
    ):
        line, listed = completed(shell, typed)
        assert line.rstrip() == expected.rstrip(), listed


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_shell_lists_incidents_newest_first(name, request, state):
    shell = request.getfixturevalue(name)
    _, listed = completed(shell, f"incidentctl --state {state} info 2026")
    assert 0 < listed.find(NEW) < listed.find(OLD), listed
    if name == "zsh":
        assert re.search(OLD + r"\s+-- .*SIG", listed), listed
