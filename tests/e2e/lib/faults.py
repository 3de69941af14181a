"""Faults at chosen system calls of incidentd and of what it starts, by seccomp's user notification.

Each call of the kinds that are asked for waits for the answer of a thread here: go on, fail with an error, or nothing at
all, while its process is killed or its thread hangs.  So no debugger comes between, and one daemon serves many faults.
"""

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from lib.daemon import Daemon
from lib.wait import until

# asm/unistd_64.h; what only waits (futex, epoll_wait, poll) or cannot fail is left out.
NUMBERS = {
    "read": 0, "write": 1, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "brk": 12, "pread64": 17,
    "pwrite64": 18, "readv": 19, "writev": 20, "dup": 32, "dup2": 33, "socket": 41, "connect": 42,
    "sendto": 44, "sendmsg": 46, "recvmsg": 47, "clone": 56, "vfork": 58, "execve": 59, "wait4": 61, "fcntl": 72,
    "fsync": 74, "fdatasync": 75, "ftruncate": 77, "rename": 82, "unlink": 87, "readlink": 89, "fstatfs": 138,
    "setpriority": 141, "getdents64": 217, "openat": 257, "mkdirat": 258, "newfstatat": 262, "unlinkat": 263,
    "renameat": 264, "linkat": 265, "readlinkat": 267, "fchmodat": 268, "faccessat": 269, "sync_file_range": 277,
    "utimensat": 280, "eventfd2": 290, "prlimit64": 302, "renameat2": 316, 
    "memfd_create": 319, "execveat": 322, "statx": 332, "pidfd_open": 434, "clone3": 435, "openat2": 437,
    "faccessat2": 439,
}  # fmt: skip
# Of an eventfd or a timerfd, which the kernel never fails.
WAKE_UPS, WAKE_UP_BYTES = (NUMBERS["read"], NUMBERS["write"]), 8
NAMES = {number: name for name, number in NUMBERS.items()}

FULL, BROKEN, NO_FD, NO_MEMORY = "ENOSPC", "EIO", "EMFILE", "ENOMEM"
ERRORS = {  # those a call may really fail with; any other: EIO
    "openat": (NO_FD, FULL), "openat2": (NO_FD, FULL), "mkdirat": (FULL, BROKEN), "linkat": (FULL, BROKEN),
    "write": (FULL, BROKEN), "writev": (FULL, BROKEN), "pwrite64": (FULL, BROKEN), "mmap": (NO_MEMORY,),
    "brk": (NO_MEMORY,), "mprotect": (NO_MEMORY,),
    "clone": (NO_MEMORY,), "clone3": (NO_MEMORY,), "vfork": (NO_MEMORY,), "execve": (NO_MEMORY,),
    "memfd_create": (NO_FD, NO_MEMORY), "pidfd_open": (NO_FD,), "eventfd2": (NO_FD,), "socket": (NO_FD,),
    "dup": (NO_FD,), "dup2": (NO_FD,), "fcntl": (NO_FD,), "renameat": (FULL, BROKEN), "renameat2": (FULL, BROKEN),
    "fsync": (BROKEN, FULL), "sendmsg": (NO_MEMORY,), "sendto": (NO_MEMORY,), "getdents64": (NO_MEMORY, BROKEN),
}  # fmt: skip

# linux/seccomp.h, linux/filter.h
SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, WAIT_KILLABLE_RECV = 317, 1, 1 << 3, 1 << 5
RET_ALLOW, RET_USER_NOTIF, CONTINUE = 0x7FFF0000, 0x7FC00000, 1
LOAD, IS, RETURN = 0x20, 0x15, 0x06
NOTIF, RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
NOTIF_RECV, NOTIF_SEND, NOTIF_SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
SYNC_WAKE_UP = struct.pack("=Q", 1)  # since Linux 6.6: the caller and who answers take turns on one processor
HANDED_OVER_BY = 900  # the descriptor by which the child hands the listener over: sendmsg on it is let through


def filter_program(calls):
    numbers = sorted(NUMBERS[call] for call in calls)
    code = [(LOAD, 0, 0, 0)]
    code += [(IS, 0, 3, NUMBERS["sendmsg"]), (LOAD, 0, 0, 16), (IS, len(numbers) + 1, 0, HANDED_OVER_BY), (LOAD, 0, 0, 0)]
    code += [(IS, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    code += [(RETURN, 0, 0, RET_ALLOW), (RETURN, 0, 0, RET_USER_NOTIF)]
    return len(code), b"".join(struct.pack("=HBBI", *line) for line in code)


def install(connection, calls):
    """In the child, before exec: the filter, whose listener goes through the connection."""
    os.dup2(connection.fileno(), HANDED_OVER_BY)
    hand_over = socket.socket(fileno=HANDED_OVER_BY)
    length, code = filter_program(calls)
    program = ctypes.create_string_buffer(code)
    head = ctypes.create_string_buffer(struct.pack("=H6xQ", length, ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    listener = libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE_RECV, head)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    socket.send_fds(hand_over, [b"x"], [listener])


ROLES = {"writer": "writer", "core search": "search"}  # of threads, by name


@dataclass(frozen=True, order=True)
class Point:
    """The n-th call of this name by a role since the crash."""

    role: str  # main: the event loop; writer; search: for its core; thread: any other of the daemon; tool: who starts the analyser, incidentctl analyse
    call: str
    n: int

    def __str__(self):
        return f"{self.role}.{self.call}.{self.n}"


class Supervisor(threading.Thread):
    """Answers for the calls of one daemon and of what it starts."""

    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection = connection
        self.lock = threading.Lock()
        self.tgids = {}
        self.seen, self.fault, self.fired, self.held = None, None, None, []
        self.listener = self.pid = None
        self.others = {}  # roles of the daemon's other processes, by pid

    def run(self):
        _, (self.listener,), _, _ = socket.recv_fds(self.connection, 1, 1)
        self.connection.close()
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        with suppress(OSError):
            fcntl.ioctl(self.listener, NOTIF_SET_FLAGS, SYNC_WAKE_UP)
        ready = select.poll()
        ready.register(self.listener, select.POLLIN)
        while not ready.poll()[0][1] & select.POLLHUP:
            notification = bytearray(NOTIF.size)
            try:
                fcntl.ioctl(self.listener, NOTIF_RECV, notification)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # killed meanwhile
                    continue
                raise
            number, tid, _, call, _, _, *arguments = NOTIF.unpack(notification)
            with self.lock:
                if call in WAKE_UPS and arguments[2] == WAKE_UP_BYTES:
                    self.answer(number)
                else:
                    self.decide(number, tid, NAMES[call])
        os.close(self.listener)

    def answer(self, number, error=0):
        response = RESPONSE.pack(number, 0, -error, 0 if error else CONTINUE)
        try:
            fcntl.ioctl(self.listener, NOTIF_SEND, bytearray(response))
        except OSError as failed:
            if failed.errno not in (errno.ENOENT, errno.EBADF):
                raise

    def decide(self, number, tid, call):
        if self.seen is None:
            return self.answer(number)
        role = self.role(tid)
        self.seen[role, call] += 1
        point = Point(role, call, self.seen[role, call])
        if self.fault is None or self.fired is not None or point != self.fault[0]:
            return self.answer(number)
        action = self.fault[1]
        self.fired = tid
        if action == "kill":
            os.kill(self.tgid(tid), signal.SIGKILL)
        elif action == "hang":
            self.held.append(number)
        else:
            self.answer(number, getattr(errno, action))
        return None

    def tgid(self, tid):
        if tid not in self.tgids:
            try:
                with open(f"/proc/{tid}/status", encoding="utf-8") as status:
                    self.tgids[tid] = next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
            except OSError:
                return 0
        return self.tgids[tid]

    def role(self, tid):
        tgid = self.tgid(tid)
        if tgid != self.pid:
            return self.others.get(tgid, "analyser")
        if tid == self.pid:
            return "main"
        with suppress(OSError), open(f"/proc/{self.pid}/task/{tid}/comm", encoding="utf-8") as name:
            return ROLES.get(name.read().strip(), "thread")
        return "thread"

    # What tests say, from their own thread:

    def watch(self, fault=None):
        """From now on calls are counted; fault: (point, action)."""
        with self.lock:
            self.tgids.clear()
            self.seen, self.fault, self.fired = Counter(), fault, None

    def release(self):
        """Hung threads go on, and nothing is counted any more.  Returns the calls by role and name."""
        with self.lock:
            for number in self.held:
                self.answer(number)
            seen, self.seen, self.fault, self.held = self.seen, None, None, []
            return seen


class FaultyDaemon(Daemon):
    """An incidentd whose calls a Supervisor answers for."""

    supervisor = None

    def __init__(self, directory, calls=tuple(NUMBERS), **options):
        super().__init__(directory, **options)
        self.calls = calls

    def start(self):
        here, there = socket.socketpair()
        self.supervisor = Supervisor(here)
        self.supervisor.start()
        with open(self.log, "a", encoding="utf-8") as log, there:
            self.process = subprocess.Popen(
                [*self.command, "--foreground"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
                preexec_fn=lambda: install(there, self.calls),
            )
        self.supervisor.pid = self.process.pid
        until(self.is_ready, "incidentd to answer", self.tail)
        self.supervisor.others = {pid: name.removeprefix("incidentd-") for name, pid in self.processes().items()}
        return self

    def status(self):
        """What `incidentctl --json status` prints."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.state / "control.sock"))
            control.sendall(b'{"verb":"status"}\n')
            return json.loads(b"".join(iter(lambda: control.recv(1 << 16), b"")))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))
