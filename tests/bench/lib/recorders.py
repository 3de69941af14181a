"""What may be attached to the machine's system calls while something runs, and what that adds."""

from contextlib import contextmanager, nullcontext
from functools import partial

from bench.lib.loop import held, loop
from bench.lib.sample import added, percent, ratio
from bench.lib.table import Table
from lib.wait import until


def empty_pair(bench):
    return held([bench.compiled("empty_pair", "-lbpf")])


def rule(exe, signal="SIGSEGV"):
    return f'[[rule]]\nname = "watched"\non = "signal"\nsignals = ["{signal}"]\nmatch = {{ exe = ["{exe}"] }}\n'


WITHOUT_DURATIONS = "[record]\ndurations = false\n"


@contextmanager
def watching(bench, exe, config=""):
    """An incidentd that records that program and no other."""
    with bench.daemon(rules=rule(exe), config=config) as watcher:
        # It has its programs timed from 1 s after its start for 0.25 s, then each minute: that is dearer, and not here.
        until(lambda: recorder(watcher).get("cost"), "the daemon to have measured its cost", watcher.tail)
        yield watcher


@contextmanager
def recording(bench, exe, config=""):
    """The same, of a program that still runs in the end: a figure of one that was not recorded would be none."""
    with watching(bench, exe, config) as watcher:
        yield
        assert recorder(watcher)["threads_used"], f"{exe} was not recorded"


def watching_another(bench, config=""):
    return watching(bench, "/no/such/program", config)


def recorder(watcher):
    return watcher.ctl.json("status")["recorder"]


def attachments(bench, exe, recorded=recording):
    """{name: function that makes the context}: what the running program exe is measured with."""
    return {
        "nothing": nullcontext,
        "empty pair": partial(empty_pair, bench),
        "incidentd, recorded": partial(recorded, bench, exe),
    }


def measured_with(attached, measure):
    """{name: function that measures once with that in place}."""

    def once(one):
        with one():
            return measure()

    return {name: partial(once, one) for name, one in attached.items()}


def getppid(program, calls, threads, attached):
    """ns a call of the loop, in so many threads that make so many calls together; attached anew each time."""
    with loop(program) as one, attached():
        return one.warm(calls // threads, threads)


def getppid_variants(bench, program, calls, threads):
    attached = attachments(bench, program) | {
        "incidentd, unwatched": partial(watching_another, bench),
        "recorded, no durations": partial(recording, bench, program, WITHOUT_DURATIONS),
        "unwatched, no durations": partial(watching_another, bench, WITHOUT_DURATIONS),
    }
    return {name: partial(getppid, program, calls, threads, one) for name, one in attached.items()}


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
        left = [percent(sample, found[base]).median for base in ("empty pair", "nothing")]
        rows.append((name, sample.median, sample.spread, *left))
    return Table(title, (what, "median", "spread", "% of empty pair", "% of nothing"), rows, notes)
