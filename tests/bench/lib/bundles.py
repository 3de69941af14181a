"""Many bundles, made of one."""

import os
import shutil
from contextlib import contextmanager

LINKS_MAX = 50_000  # of a file: ext4 has 65,000


def tree(bundle):
    """Its directories and files, by their paths within it."""
    directories, files = [], []
    for path in sorted(bundle.rglob("*")):
        (directories if path.is_dir() else files).append(path.relative_to(bundle))
    return directories, files


def multiply(bundle, count):
    """Until there are so many beside it: hard links under other names, which differ in the short id."""
    directories, files = tree(bundle)
    stem = bundle.name.rpartition("-")[0]
    source = bundle
    for number in range(1, count):
        copy = bundle.with_name(f"{stem}-{number:06x}")
        if number % LINKS_MAX == 0:
            source = shutil.copytree(bundle, copy)
            continue
        copy.mkdir(mode=0o700)
        for directory in directories:
            (copy / directory).mkdir(mode=0o700)
        for file in files:
            os.link(source / file, copy / file)


@contextmanager
def bundle_of(bench, rules, config, make):
    """A state directory with the bundle of what make() makes die, as (daemon, already stopped; bundle)."""
    with bench.daemon(rules=rules, config=config) as watcher:
        bundle = watcher.explained_incident(make()).path
        watcher.stop()
        yield watcher, bundle
        shutil.rmtree(watcher.state / "incidents")
