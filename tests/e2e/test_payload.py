"""context.payload: the first bytes that a process writes to standard error, and sends or receives through sockets."""

import subprocess

from lib.programs import victim
from lib.victims import finish, run, start
from test_reload_memory import reload

PYTHON = "/usr/bin/python3"
TALKER = r"""
import os, signal, socket
print('ready', flush=True)
input()
os.write(2, b'to stderr\n')
mine, other = socket.socketpair()
mine.send(b'GET /' + b'x' * 300 + b' HTTP/1.1')
other.recv(1000)
mine.sendmsg([b'in ', b'', b'three ', b'parts'])
other.recvmsg(1000)
os.writev(mine.fileno(), [b'writ', b'ten'])
os.readv(other.fileno(), [bytearray(4), bytearray(50)])
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('127.0.0.1', 0))
datagrams.sendto(b'a datagram\x1b[31m', datagrams.getsockname())
datagrams.recvfrom(100)
mine.send(b'password=swordfish')
other.recv(100)
datagrams.sendto(b'longer', datagrams.getsockname())
datagrams.recvfrom(4, socket.MSG_TRUNC)
os.write(os.open('/dev/null', os.O_WRONLY), b'to no socket')
os.read(os.open('/etc/hostname', os.O_RDONLY), 100)
SENDS
"""
KEPT = 32
ALSO = f"""
[[rule]]
name = "with"
on = "signal"
signals = ["SIGSEGV"]
match = {{ exe = ["{PYTHON}*"] }}
context = {{ payload = {KEPT} }}
"""
RULES = """
[[rule]]
name = "without"
on = "signal"
signals = ["SIGABRT", "SIGBUS"]
"""


def talk(watcher, signal):
    """The incident of a talker that dies of it."""
    code = TALKER.replace("SENDS", f"os.kill(os.getpid(), signal.{signal})")
    process = start(PYTHON, "-c", code, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == b"ready\n"
    # The daemon is asked about a process before it is told of what comes later.
    watcher.incident(run(victim("die"), "bus").pid)
    return watcher.incident(finish(process, stdin=b"\n").pid)


def shown(incident):
    """What stands in the place of the pointers to buffers, from the talk on."""
    calls = [line for line in incident.timeline if line["kind"] == "syscall"]
    names = ("write", "writev", "readv", "sendto", "recvfrom", "sendmsg", "recvmsg", "read")
    said = [(call["name"], call["args"][1]) for call in calls if call["name"] in names]
    begin = max(i for i, (name, _) in enumerate(said) if name == "sendmsg") - 3
    return said[begin:]


def test_what_a_rule_has_asked_for(daemon):
    watcher = daemon(rules=RULES + ALSO, config="[privacy]\nredact = ['password=\\S+']\n")
    said = shown(talk(watcher, "SIGSEGV"))
    request = '"GET /' + "x" * (KEPT - 5) + '"…'
    assert said[:15] == [
        ("write", '"to stderr\\n"'),
        ("sendto", request),
        ("recvfrom", request),
        ("sendmsg", '{msg_iov=["in three parts"]}'),
        ("recvmsg", '{msg_iov=["in three parts"]}'),
        ("writev", '["written"]'),
        ("readv", '["written"]'),
        ("sendto", '"a datagram\\33[31m"'),
        ("recvfrom", '"a datagram\\33[31m"'),
        ("sendto", '"[redacted]"'),
        ("recvfrom", '"[redacted]"'),
        ("sendto", '"longer"'),
        ("recvfrom", '"long"…'),  # it returns 6
        *said[13:15],
    ]
    assert [name for name, _ in said[13:15]] == ["write", "read"]
    assert all(text.startswith("0x") for _, text in said[13:15])  # of no socket


def test_another_rule_shows_nothing_of_it(daemon):
    watcher = daemon(rules=RULES + ALSO)
    incident = talk(watcher, "SIGABRT")
    assert incident.record["rule"] == "without"
    assert not [text for _, text in shown(incident) if '"' in text]
    everything = b"".join(path.read_bytes() for path in incident.path.glob("*.json*"))
    assert b"in three parts" not in everything


def test_it_is_kept_of_no_process_that_no_rule_names(daemon):
    watcher = daemon(rules=RULES + ALSO.replace(f"{PYTHON}*", "/nowhere/*"))
    assert not [text for _, text in shown(talk(watcher, "SIGABRT")) if '"' in text]


def test_a_reload_begins_and_ends_it(daemon):
    watcher = daemon(rules=RULES)
    reload(watcher, RULES + ALSO)
    assert ("writev", '["written"]') in shown(talk(watcher, "SIGSEGV"))
    reload(watcher, RULES + ALSO.replace("context", "#context"))
    assert ("writev", '["written"]') not in shown(talk(watcher, "SIGSEGV"))
