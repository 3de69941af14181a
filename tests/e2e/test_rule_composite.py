"""Rules of several conditions for one process."""

from lib.programs import victim
from lib.victims import run

OPEN = '{ on = "syscall", syscall = ["openat"], errno = ["ENOENT"] }'
ENDS = '{ on = "exit", status = 0 }'


def rule(kind, more=""):
    return (
        f'[[rule]]\nname = "both"\non = "{kind}"\ncondition = [ {OPEN}, {ENDS} ]\n{more}\n'
        'match = { comm = ["trouble"] }\nlimit = { cooldown = "1h", by = "process" }\n'
    )


def test_all_of_them(daemon):
    watcher = daemon(rules=rule("all", 'within = "1m"'))
    run(victim("trouble"), "rename", "trouble")  # ends well, opens nothing in vain
    both = run(victim("trouble"), "open", "/no/such/file", "1")
    incident = watcher.incident(both.pid)
    assert incident.record["kind"] == "exit", "the one that was met last"
    assert {match["condition"] for match in incident.record["matches"]["kept"]} == {0, 1}
    assert len(watcher.incidents()) == 1


def test_any_of_them(daemon):
    watcher = daemon(rules=rule("any"))
    one = run(victim("trouble"), "rename", "trouble")
    assert watcher.incident(one.pid).record["kind"] == "exit"
    other = run(victim("trouble"), "open", "/no/such/file", "1")
    assert watcher.incident(other.pid).record["kind"] == "syscall"
