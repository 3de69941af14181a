"""incidentctl: every verb as text and JSON, and a clear error for each bad input."""

import json
import shutil
import signal
import socket
import threading

import pytest

from lib.ctl import Ctl
from lib.daemon import SANITIZER_REPORT
from lib.programs import INCIDENTCTL, victim
from lib.users import open_to_others
from lib.victims import run, running
from lib.wait import until

NOBODY = 65534


@pytest.fixture(scope="module")
def crash(recorder):
    """One incident for all the tests of the module."""
    return recorder.explained_incident(run(victim("siblings"), "2", "1", "0", "fault").pid)


@pytest.fixture
def bundle(crash, tmp_path):
    """A state directory of its own with a copy of that incident, to be damaged."""
    copy = tmp_path / "state" / "incidents" / crash.id
    shutil.copytree(crash.path, copy)
    return copy


def ctl_of(bundle):
    return Ctl(bundle.parent.parent)


def complaint(done, status=1):
    """What a command that failed says on standard error: a line, which further ones, indented, may explain."""
    assert done.returncode == status, done.stdout + done.stderr
    assert not SANITIZER_REPORT.search(done.stderr), done.stderr
    line, *more = done.stderr.rstrip().splitlines()
    assert line.startswith("incidentctl: ") and all(one.startswith("  ") for one in more)
    return "\n".join([line, *more])


def test_ids(recorder, crash):
    short = crash.id.rsplit("-", 1)[1]
    for name in (crash.id, crash.id[:-1], str(crash.process["pid"]), short):
        assert recorder.ctl.json("info", name)["id"] == crash.id


def test_latest_is_the_default(recorder, crash):
    assert recorder.ctl.json("info")["id"] == recorder.ctl.json("info", "latest")["id"]


def test_list(recorder, crash):
    (line,) = [line for line in recorder.ctl.json_lines("list") if line["id"] == crash.id]
    assert line["pid"] == crash.process["pid"]
    assert line["rule"] == "crash"
    assert line["signal"] == "SIGSEGV"
    assert str(crash.process["pid"]) in recorder.ctl.text("list")


def test_info(recorder, crash):
    def told_as_recorded():
        """What is found out later may come between the two looks."""
        document, record = recorder.ctl.json("info", crash.id), json.loads((crash.path / "incident.json").read_text())
        return all(document[key] == record[key] for key in record if key != "core")

    until(told_as_recorded, "info to say what the record says", recorder.tail)
    shown = recorder.ctl.text("info", crash.id)
    for expected in ("SIGSEGV", victim("siblings"), crash.process["build_id"], str(crash.process["pid"])):
        assert expected in shown


def without_logs(events):
    return [event for event in events if event["kind"] != "log"]


def test_timeline(recorder, crash):
    assert recorder.ctl.json_lines("timeline", crash.id) == crash.timeline
    last = recorder.ctl.json_lines("timeline", crash.id, "-n", "5")
    assert without_logs(last) == without_logs(crash.timeline)[-5:]
    assert last == crash.timeline[-len(last) :], "and what the logs have from between and after them"
    tid = crash.crashed["tid"]
    assert {event["tid"] for event in recorder.ctl.json_lines("timeline", crash.id, "--tid", tid)} == {tid}
    assert "openat(" in recorder.ctl.text("timeline", crash.id)


def test_threads(recorder, crash):
    assert {thread["tid"] for thread in recorder.ctl.json("threads", crash.id)} == crash.tids
    shown = recorder.ctl.text("threads", crash.id)
    assert all(str(tid) in shown for tid in crash.tids)


def test_verify(recorder, crash):
    assert recorder.ctl.json("verify", crash.id)["ok"] is True


def test_status(recorder):
    status = recorder.ctl.json("status")
    (rule,) = status["rules"]
    assert rule["name"] == "crash"
    assert rule["state"] == "active"
    assert "crash" in recorder.ctl.text("status")


def test_slow_clients_hold_nobody_up(recorder):
    """Each says a byte now and then; others are answered, and incidents written, meanwhile."""
    over = threading.Event()

    def dribble(client):
        with client:
            while not over.wait(0.2):
                try:
                    client.send(b"x")
                except OSError:  # given up
                    return

    clients = []
    for _ in range(5):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(recorder.state / "control.sock"))
        client.send(b"{")
        clients.append(threading.Thread(target=dribble, args=(client,)))
        clients[-1].start()
    try:
        for _ in range(3):
            assert recorder.ctl.json("status")["rules"]
        died = run(victim("die"), "null-read")
        assert recorder.incident(died.pid)
        assert any(client.is_alive() for client in clients), "they were at it all the time"
    finally:
        over.set()
        for client in clients:
            client.join()


def test_wait_returns_a_death_of_just_now(recorder):
    died = run(victim("die"), "null-read")
    assert recorder.ctl.json("wait", "--pid", died.pid, "--timeout", "60s")["id"] == recorder.incident(died.pid).id


def test_wait_begun_before_the_death(daemon):
    quiet = daemon()
    with running(*quiet.ctl.command, "--json", "wait", "--timeout", "60s") as waiting:
        died = run(victim("die"), "null-read")
        output, _ = waiting.communicate()
    assert json.loads(output)["id"] == quiet.incident(died.pid).id


def test_wait_gives_up(recorder):
    assert "no incident" in complaint(recorder.ctl.run("wait", "--rule", "none", "--timeout", "10ms"))


@pytest.mark.parametrize("verb", ["info", "timeline", "threads", "gdb", "core", "verify"])
def test_no_such_incident(recorder, crash, verb):
    assert "no-such" in complaint(recorder.ctl.run(verb, "no-such"))


@pytest.mark.parametrize("verb", ["info", "timeline", "threads", "gdb", "core", "verify"])
def test_no_incidents_yet(daemon, verb):
    assert "no incidents" in complaint(daemon().ctl.run(verb))


def test_an_ambiguous_prefix(recorder, crash):
    recorder.incident(run(victim("die"), "null-read").pid)
    assert f"\n  {crash.id}" in complaint(recorder.ctl.run("info", crash.id[:2]))


def test_errors_of_rules_keep_their_lines(daemon):
    one = daemon()
    (one.rules / "bad.toml").write_text('[[rule]]\nname = "b"\non = "sginal"\n')
    one.process.send_signal(signal.SIGHUP)
    until(lambda: one.ctl.json("status")["rule_errors"], "the reload", one.tail)
    said = one.ctl.text("status").splitlines()
    (at,) = [at for at, line in enumerate(said) if "bad.toml:3:" in line]
    assert said[at].endswith("unknown kind of rule 'sginal'")
    assert said[at + 1].strip() == '3 | on = "sginal"'


def test_none_are_asked_for(recorder, crash):
    done = recorder.ctl.run("list", "-n", "0")
    assert done.returncode == 0 and done.stdout + done.stderr == "", "there are incidents"


def test_since_as_the_manual_has_it(recorder, crash):
    assert crash.id in {line["id"] for line in recorder.ctl.json_lines("list", "--since", "2h ago")}


def test_a_bundles_directory_is_an_id(tmp_path, crash):
    assert Ctl(tmp_path).json("info", crash.path)["id"] == crash.id


def test_no_daemon(bundle):
    assert "not running" in complaint(ctl_of(bundle).run("status"))


def test_no_state_directory(tmp_path):
    assert "none" in complaint(Ctl(tmp_path / "none").run("list"))


@pytest.mark.parametrize("verb", ["list", "info", "timeline", "verify"])
def test_no_permission(recorder, crash, tmp_path, verb):
    open_to_others(tmp_path)
    ctl = Ctl(recorder.state, binary=shutil.copy(INCIDENTCTL, tmp_path / "incidentctl"))
    assert "permission" in complaint(ctl.run(verb, user=NOBODY, group=NOBODY, cwd="/")).lower()


@pytest.mark.parametrize("file", ["incident.json", "threads.json", "timeline.jsonl"])
@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe\x00", b"[[[[", b'{"process": 3}\n'])
def test_a_damaged_file(bundle, file, damage):
    (bundle / file).write_bytes(damage)
    ctl = ctl_of(bundle)
    done = ctl.run("verify")
    assert done.returncode == 1
    assert file in done.stdout + done.stderr
    for verb in ("list", "info", "timeline", "threads"):
        for json_option in ([], ["--json"]):
            done = ctl.run(*json_option, verb)
            assert done.returncode in (0, 1), (verb, done.stderr)
            assert not SANITIZER_REPORT.search(done.stderr), done.stderr


def test_a_missing_file(bundle):
    (bundle / "timeline.jsonl").unlink()
    assert "timeline.jsonl" in complaint(ctl_of(bundle).run("timeline"))
    assert "timeline.jsonl" in ctl_of(bundle).run("verify").stdout


def test_a_file_replaced_by_a_link(bundle, tmp_path):
    (tmp_path / "secret").write_text('{"id": "secret"}')
    (bundle / "incident.json").unlink()
    (bundle / "incident.json").symlink_to(tmp_path / "secret")
    done = ctl_of(bundle).run("info")
    assert done.returncode == 1
    assert "secret" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["bogus"], ["list", "--bogus"], [], ["info", "a", "b"], ["wait", "--timeout", "soon"], ["timeline", "-n", "x"],
     ["timeline", "--kind", "foo"], ["replay"]],
)
def test_wrong_usage(tmp_path, arguments):
    complaint(Ctl(tmp_path).run(*arguments), status=2)


def test_help(tmp_path):
    shown = Ctl(tmp_path).text("--help")
    for verb in ("list", "info", "timeline", "threads", "gdb", "core", "verify", "wait", "status"):
        assert verb in shown
        assert verb in Ctl(tmp_path).text(verb, "--help")


def test_bundles_are_roots_alone(crash):
    assert crash.path.stat().st_mode & 0o777 == 0o700
    for path in crash.path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
