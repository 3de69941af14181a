"""Making a process dump core because a rule says so, and all that may keep it from it."""

import shutil
import signal

import pytest

from lib import callers
from lib.cgroup import cgroup
from lib.daemon import CRASH_RULE, Daemon
from lib.incident import of_pid
from lib.programs import victim
from lib.victims import finish, running, start
from lib.wait import PATIENCE, until

ALLOW = "[safety]\nallow_dump = true\n"


def rule(dump='"SIGABRT"', threshold="100ms"):
    return (
        f'[[rule]]\nname = "stuck"\non = "blocked"\nthreshold = "{threshold}"\nwhen = "deadline"\ndump = {dump}\n'
        'match = { comm = ["trouble"] }\nlimit = { cooldown = "1h", by = "process" }\n'
    )


def stuck():
    return start(victim("trouble"), "pipe", "60000")


def not_dumped(watcher, process):
    """Its incident, which says why; the process still runs."""
    incident = watcher.incident(process.pid)
    assert process.poll() is None
    assert not incident.record["dump"]["sent"]
    return incident.record["dump"]


def test_a_stuck_process_dumps(daemon, coredump_host):
    watcher = daemon(rules=rule() + CRASH_RULE, config=ALLOW)
    process = stuck()
    assert finish(process).status == -signal.SIGABRT
    incident = watcher.joined_incident(process.pid)
    assert incident.record["kind"] == "blocked"
    dump = incident.record["dump"]
    assert dump["asked"] and dump["sent"] and dump["by"] == "daemon" and dump["signal"] == "SIGABRT"
    assert dump["refused"] is None and dump["findings"]
    assert incident.record["core"]["join"] in ("exact", "window"), incident.record["core"]
    assert incident.record["core"]["file"]
    assert len(watcher.incidents()) == 1, "its death is no incident of its own"


def test_not_without_being_allowed(daemon):
    watcher = daemon(rules=rule())
    with running(victim("trouble"), "pipe", "60000") as process:
        assert "allow_dump" in not_dumped(watcher, process)["refused"]


def test_a_dry_run(daemon, coredump_host):
    watcher = daemon(rules=rule('{ signal = "SIGABRT", dry_run = true }'), config=ALLOW)
    with running(victim("trouble"), "pipe", "60000") as process:
        dump = not_dumped(watcher, process)
        assert dump["dry_run"] and "dry_run" in dump["refused"]


@pytest.mark.parametrize("never", ["trouble", "*/victims/*"])
def test_never_those(daemon, never):
    watcher = daemon(rules=rule(), config=ALLOW + f'never = ["{never}"]\n')
    with running(victim("trouble"), "pipe", "60000") as process:
        assert "never" in not_dumped(watcher, process)["refused"]


def test_not_where_the_signal_is_ignored(daemon, coredump_host):
    watcher = daemon(rules=rule('"SIGQUIT"'), config=ALLOW)
    with running("sh", "-c", 'trap "" QUIT; exec "$0" pipe 60000', victim("trouble")) as process:
        assert "ignores SIGQUIT" in not_dumped(watcher, process)["refused"]


def test_only_so_many_an_hour(daemon, coredump_host):
    watcher = daemon(rules=rule(), config=ALLOW + "dumps_per_hour = 1\n")
    first = stuck()
    assert finish(first).status == -signal.SIGABRT
    watcher.incident(first.pid)
    with running(victim("trouble"), "pipe", "60000") as second:
        assert "last hour" in not_dumped(watcher, second)["refused"]


# ---- each process by itself, at the moment of sending -----------------------------------------------------------

SLOW_CALL = """
[[rule]]
name    = "{name}"
on      = "syscall"
syscall = ["nanosleep", "clock_nanosleep"]
slower_than = "20ms"
dump    = "SIGABRT"
match   = {{ {match} }}
"""


def slow_call(name, match):
    return SLOW_CALL.format(name=name, match=match)


def dumps(process):
    """It makes its slow call and is made to dump core for it, in it or soon after."""
    callers.tell(process, "s")
    return process.wait(PATIENCE) == -signal.SIGABRT


def spared(watcher, process, why):
    """It makes its slow call, twice, and lives: nothing but the record of it comes of it."""
    assert callers.tell(process, "ss")
    found = until(lambda: of_pid(watcher.state, process.pid), f"an incident of {process.pid}", watcher.tail)
    assert callers.tell(process, "s") and process.poll() is None
    for incident in found:
        assert not incident.record["dump"]["sent"]
        assert why in incident.record["dump"]["refused"], incident.record["dump"]


@pytest.fixture(scope="module")
def slow_calls(tmp_path_factory, coredump_host):
    """One daemon whose rule dumps each process of one program, but for those called "protected"."""
    directory = tmp_path_factory.mktemp("slow")
    watcher = Daemon(
        directory,
        rules=slow_call("slow", f'exe = ["{directory}/service"]'),
        config=ALLOW + 'never = ["protected", "guarded.service"]\ndumps_per_hour = 100\n',
    ).start()
    watcher.service = shutil.copy(victim("callers"), directory / "service")
    yield watcher
    watcher.stop()


@pytest.mark.parametrize("first", ["free", "protected"])
def test_never_is_of_each_process_not_of_its_program(slow_calls, first):
    """Two services of one executable and one user: whoever is seen first decides for itself alone."""
    order = ["free", "protected"] if first == "free" else ["protected", "free"]
    with callers.told(order[0], program=slow_calls.service) as one, callers.told(order[1], program=slow_calls.service) as other:
        for name, process in zip(order, (one, other)):
            if name == "free":
                assert dumps(process)
                assert slow_calls.incident(process.pid).record["dump"]["sent"]
            else:
                spared(slow_calls, process, "never")


@pytest.mark.parametrize("what, why", [("h", "handles"), ("i", "ignores"), ("b", "blocks"), ("l", "RLIMIT_CORE"), ("p", "never")])
def test_what_a_process_has_become_counts(slow_calls, what, why):
    """It may be dumped, until it handles the signal, limits its cores or has another name."""
    with callers.told("free", program=slow_calls.service) as process:
        # known, permitted, and left alone for a call that is quick: then changed
        assert callers.tell(process, "x" * 50)
        assert callers.tell(process, what)
        spared(slow_calls, process, why)


def test_one_that_stays_what_it_was_dumps_in_its_call(slow_calls):
    with callers.told("free", program=slow_calls.service) as process:
        assert callers.tell(process, "x" * 50)
        assert dumps(process)
        dump = slow_calls.incident(process.pid).record["dump"]
        assert dump["sent"] and dump["by"] == "kernel", slow_calls.tail()


def test_the_cgroup_it_stands_in_now_counts(slow_calls):
    with cgroup("system.slice/guarded.service") as guarded, callers.told("free", program=slow_calls.service) as process:
        assert callers.tell(process, "x" * 50)
        (guarded / "cgroup.procs").write_text(str(process.pid))
        spared(slow_calls, process, "never")
        process.kill()
        process.wait()


def test_the_user_it_runs_as_now_counts(daemon, coredump_host):
    """It was root's when it was judged, and permitted: the rule about root's is not about nobody's."""
    watcher = daemon(rules=slow_call("roots", 'comm = ["service"], uid = [0]'), config=ALLOW)
    with callers.told("service") as dropped, callers.told("service") as other:
        for process in (dropped, other):
            assert callers.tell(process, "x" * 50)
        assert callers.tell(dropped, "u" + "s" * 5) and dropped.poll() is None
        assert dumps(other)  # what comes after it is known
        watcher.incident(other.pid)
        assert not of_pid(watcher.state, dropped.pid), "nor is there an incident of it"


def test_a_process_that_becomes_another_users_is_its(daemon, coredump_host):
    """As servers do that begin as root: they are ruled out as root's."""
    watcher = daemon(rules=slow_call("nobodys", 'exe = ["*/callers"], uid = [65534]'), config=ALLOW)
    with callers.told("service") as process:
        assert callers.tell(process, "x" * 50 + "s")
        assert not of_pid(watcher.state, process.pid)
        assert callers.tell(process, "u" + "x" * 50)
        assert dumps(process)
        record = watcher.incident(process.pid).record
        assert record["dump"]["sent"] and record["process"]["uid"] == 65534


def test_five_rules_share_one_hour(daemon, coredump_host):
    names = [f"caller{i}" for i in range(5)]
    watcher = daemon(
        rules="".join(slow_call(f"r-{name}", f'comm = ["{name}"]') for name in names), config=ALLOW + "dumps_per_hour = 1\n"
    )
    processes = [callers.start("told", name) for name in names]
    for process in processes:
        assert callers.tell(process, "x" * 50)
    for process in processes:
        process.stdin.write(b"s")
    incidents = {process.pid: watcher.incident(process.pid) for process in processes}
    for process in processes:
        process.stdin.close()
    died = [process.pid for process in processes if process.wait(PATIENCE) == -signal.SIGABRT]
    assert len(died) == 1, watcher.tail()
    assert [pid for pid, incident in incidents.items() if incident.record["dump"]["sent"]] == died
    assert all("last hour" in i.record["dump"]["refused"] for pid, i in incidents.items() if pid not in died)
