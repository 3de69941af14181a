"""What a reload takes it gives back: memory, descriptors, mappings."""

import os
import re
import signal
from pathlib import Path

import pytest

from lib.daemon import CRASH_RULE, SANITIZED
from lib.heap_victim import config, heap_victim, is_untouched, rule
from lib.programs import victim
from lib.victims import running
from lib.wait import until
from test_latency_left import of
from test_latency_left import rule as latency_rule

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer holds back the memory that is freed")

MEBIBYTE = 1024  # of /proc's kilobytes
SETTLED, MUCH_LATER = 5, 25
MOST_GROWTH = 16 * MEBIBYTE


def reload(watcher, text):
    """It has read these rules, and answers again."""
    before = watcher.log.read_text().count("reloaded: ")
    (watcher.rules / "test.toml").write_text(text)
    watcher.process.send_signal(signal.SIGHUP)
    until(lambda: watcher.log.read_text().count("reloaded: ") > before, "the reload", watcher.tail)


def is_a_journal(path):
    return path.removesuffix(" (deleted)").endswith(".journal")


def resident(process):
    """Kilobytes, but for what others' memory it has mapped: the kernel's maps, all there from the start, and as many of the
    machine's journals as libsystemd likes, which are the page cache's."""
    kilobytes, counts = 0, True
    for line in (process / "smaps").read_text().splitlines():
        if mapping := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)", line):
            counts = "bpf-map" not in mapping[1] and not is_a_journal(mapping[1])
        elif counts and line.startswith("Rss:"):
            kilobytes += int(line.split()[1])
    return kilobytes


def descriptors(process):
    """Paths of what it has open, but for journals: libsystemd opens all there are when the first core is looked for, and
    journald makes more of them as time passes."""
    found = []
    for descriptor in (process / "fd").iterdir():
        try:
            path = os.readlink(descriptor)
        except FileNotFoundError:  # closed since it was listed
            continue
        if not is_a_journal(path):
            found.append(path)
    return found


def of_daemon(watcher):
    process = Path(f"/proc/{watcher.process.pid}")
    return {
        "RSS": resident(process),
        "descriptors": len(descriptors(process)),
        "mappings": sum(not is_a_journal(line) for line in (process / "maps").read_text().splitlines()),
    }


def assert_steady(early, late):
    said = f"{early} after {SETTLED} reloads, {late} after {MUCH_LATER}"
    assert late["RSS"] - early["RSS"] < MOST_GROWTH, said
    # Detaching goes on for a while after a reload, in threads that have a stack each.
    assert late["descriptors"] - early["descriptors"] <= 16, said
    assert late["mappings"] - early["mappings"] <= 64, said


@pytest.mark.slow
def test_rules_with_heaps_that_come_and_go(daemon):
    with_heap, without = rule(victim("heap"), "history") + CRASH_RULE, CRASH_RULE
    watcher = daemon(rules=without, config=config())
    seen = {}
    with heap_victim("window", 10, 20) as one:
        for number in range(1, MUCH_LATER + 1):
            reload(watcher, with_heap)
            one.watched(watcher)
            reload(watcher, without)
            until(lambda: is_untouched(one.pid), "the probes to be gone", watcher.tail)
            if number in (SETTLED, MUCH_LATER):
                seen[number] = of_daemon(watcher)
    assert_steady(seen[SETTLED], seen[MUCH_LATER])


@pytest.mark.slow
def test_rules_with_probes_that_come_and_go(daemon):
    probed = latency_rule("slow", victim("heap"), of(victim("heap"), "main"), "deadline") + CRASH_RULE
    watcher = daemon(rules=CRASH_RULE)
    seen = {}
    with running(victim("trouble"), "pipe", "600000"):
        for number in range(1, MUCH_LATER + 1):
            reload(watcher, probed)
            reload(watcher, CRASH_RULE)
            if number in (SETTLED, MUCH_LATER):
                seen[number] = of_daemon(watcher)
    assert_steady(seen[SETTLED], seen[MUCH_LATER])
