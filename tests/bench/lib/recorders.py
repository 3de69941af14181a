"""What may be attached to the machine's system calls while something runs, and what that adds."""

from contextlib import contextmanager

from bench.lib.loop import held
from bench.lib.sample import added, ratio
from bench.lib.table import Table
from lib.wait import until


def empty_pair(bench):
    return held([bench.compiled("empty_pair", "-lbpf")])


def rule(exe, signal="SIGSEGV"):
    return f'[[rule]]\nname = "watched"\non = "signal"\nsignals = ["{signal}"]\nmatch = {{ exe = ["{exe}"] }}\n'


@contextmanager
def watching(bench, exe):
    """An incidentd that records that program and no other."""
    with bench.daemon(rules=rule(exe)) as watcher:
        # It has its programs timed from 1 s after its start for 0.25 s, then each minute: that is dearer, and not here.
        until(lambda: recorder(watcher).get("cost"), "the daemon to have measured its cost", watcher.tail)
        yield watcher


def watching_another(bench):
    return watching(bench, "/no/such/program")


def recorder(watcher):
    return watcher.ctl.json("status")["recorder"]


def costs(title, what, found, notes=()):
    """A table of what each variant adds to "nothing" and that against what "empty pair" adds."""
    base = found["nothing"]
    pair = added(found["empty pair"], base)
    rows = []
    for name, sample in found.items():
        more = added(sample, base)
        against = (more.median, ratio(more, pair)) if sample is not base else (None, None)
        rows.append((name, sample.median, sample.spread, *against))
    return Table(title, (what, "median", "spread", "added", "× empty pair"), rows, notes)


def shares(title, what, found, notes=()):
    """A table of throughputs: what of "empty pair"'s and of "nothing"'s each variant leaves, in percent."""
    rows = []
    for name, sample in found.items():
        left = [100 * ratio(sample, found[base]) for base in ("empty pair", "nothing")]
        rows.append((name, sample.median, sample.spread, *left))
    return Table(title, (what, "median", "spread", "% of empty pair", "% of nothing"), rows, notes)
