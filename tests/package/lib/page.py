"""A manual page as a reader has it: rendered, 200 columns, its bold words marked.

Only what stands at an entry's head counts as described: "*--rule* NAME" at the left, its text
below it further in."""

import re
import subprocess

from lib.programs import PAGES


def rendered(name):
    """[(indent, text)], bold as *…*."""
    done = subprocess.run(
        ["groff", "-K", "utf8", "-t", "-man", "-Tutf8", "-P-c", "-rLL=200n", "-rHY=0", str(PAGES / name)],
        capture_output=True, text=True, check=True,
    )
    text = re.sub(r"(.)\x08\1", "\\1\x01", done.stdout)  # overstruck: bold
    text = re.sub(r"_\x08(.)", r"\1", text)
    text = re.sub(r"((?:.\x01)+)", lambda bold: "*" + bold[1].replace("\x01", "") + "*", text)
    return [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines()]


def sections(name):
    """{"SECTION" or "SECTION/subsection": [entry heads]}; an entry's head is a line whose next
    one stands further in."""
    found, section, subsection = {}, "", ""
    lines = [line for line in rendered(name) if line[1]]
    for (indent, text), (below, _) in zip(lines, lines[1:] + [(0, "")]):
        bare = text.replace("*", "")
        if indent == 0:
            section, subsection = bare, ""
        elif indent < 5:
            subsection = bare
        elif indent <= 8 and below > indent:
            found.setdefault(f"{section}/{subsection}" if subsection else section, []).append(text)
            continue
        found.setdefault(f"{section}/{subsection}" if subsection else section, [])
    return found


def bold(head):
    return re.findall(r"\*([^*]+)\*", head)
