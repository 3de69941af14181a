"""What is left of a server's throughput while it is recorded: nginx, redis (GET, SET), MariaDB, PostgreSQL."""

from contextlib import contextmanager
from functools import partial

from bench.lib.recorders import attachments, measured_with, recorder, rule, shares
from bench.lib.sample import alternate
from bench.lib.servers import ended, on_cpu, quiet, servers
from lib.wait import until


def settled(watcher):
    """Whether it has measured its cost, and need or can do no more about it."""
    cost = watcher.ctl.json("status")["cost"]
    return cost["measured"] and (cost["advice"] or cost["total"] <= cost["budget"])


@contextmanager
def as_shipped(bench, load):
    """An incidentd with the budget that it has by itself, once that has made it leave out what it leaves out of this."""
    with ended(quiet(*on_cpu("clients"), *map(str, load.endless(600)))) as busy:
        with bench.daemon(rules=rule(load.exe), config="[cost]\n") as watcher:
            until(lambda: settled(watcher), "the daemon to have settled", watcher.tail)
            busy.terminate()
            yield
            assert recorder(watcher)["threads_used"], f"{load.exe} was not recorded"


def tables(bench, name, loaded):
    with loaded() as load:
        attached = attachments(bench, load.exe) | {"incidentd, as shipped": partial(as_shipped, bench, load)}
        for what, (unit, once) in load.kinds.items():
            once()  # what has to be cached is cached then
            found = alternate(measured_with(attached, once), bench.rounds)
            yield shares(f"{name}: {what}", unit, found)


def run(bench):
    for name, _, loaded in servers(bench):
        yield from tables(bench, name, loaded)
