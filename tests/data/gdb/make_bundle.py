"""Sourced by gdb: runs the program it has until it dies, and writes what a bundle of that would hold.

OUT names the directory: the bundle's files and, beside them, `core`.
"""

import json
import os

import gdb

OUT = os.environ["OUT"]
TRIGGER = 10**9
MASK = (1 << 64) - 1
REGISTERS = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip orig_rax".split()


def value(expression):
    return int(gdb.parse_and_eval(expression)) & MASK


def write(name, text):
    path = os.path.join(OUT, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def copied(name, of):
    with open(of) as file:
        write(name, file.read())


def call(t, tid, name, args, ret, **more):
    event = {"t_ns": TRIGGER + t, "tid": tid, "kind": "syscall", "name": name, "args": args, "ret": ret}
    event.update({"error": None, "duration_ns": 2500, "path": None, "fd": None, "in_flight": False})
    event.update(more)
    return event


def registers(thread):
    thread.switch()
    return {name: hex(int(gdb.newest_frame().read_register(name)) & MASK) for name in REGISTERS}


gdb.execute("run")
pid = gdb.selected_inferior().pid
tids = [value("tids[%d]" % index) for index in range(3)]
gdb.execute("generate-core-file %s/core" % OUT)
for name in ("maps", "limits", "status", "smaps_rollup"):
    copied("process/" + name, "/proc/%d/%s" % (pid, name))
fds = []
for fd in sorted(map(int, os.listdir("/proc/%d/fd" % pid))):
    fds.append({"fd": fd, "target": os.readlink("/proc/%d/fd/%d" % (pid, fd)), "pos": 0, "flags": "02"})
write("process/fds", "".join(json.dumps(fd) + "\n" for fd in fds))

fault = hex(value("(long)$_siginfo._sifields._sigfault.si_addr"))
halved, heap = value("(long)halved"), value("(long)heap")
anonymous = ["PROT_READ|PROT_WRITE", "MAP_PRIVATE|MAP_ANONYMOUS", "-1", "0x0"]
absent = {"error": "ENOENT", "kind": "open", "path": "/etc/victim.conf"}
waiting = {"in_flight": True, "duration_ns": None}
events = [
    call(-900000, tids[0], "mmap", ["NULL", "1048576"] + anonymous, halved, ret_text=hex(halved)),
    call(-800000, tids[0], "munmap", [hex(halved + (1 << 19)), "524288"], 0),
    call(-600000, tids[1], "read", ["3", "0x1000", "1"], None, fd=3, **waiting),
    call(-500000, tids[2], "pause", [], None, **waiting),
    call(-4000, tids[0], "openat", ["AT_FDCWD", '"/etc/victim.conf"', "O_RDONLY"], -2, **absent),
    {
        "t_ns": TRIGGER,
        "tid": tids[0],
        "kind": "signal",
        "name": "SIGSEGV",
        "phase": "delivered",
        "code_name": "SEGV_MAPERR",
        "address": fault,
        "disposition": "fatal",
        "trigger": True,
    },
]
write("timeline.jsonl", "".join(json.dumps(event) + "\n" for event in events))

numbers, known, threads = {"read": 0, "pause": 34, "openat": 257}, {}, []
for thread in gdb.selected_inferior().threads():
    known[thread.ptid[1]] = thread
for index, tid in enumerate(tids):
    last = [event for event in events if event["tid"] == tid and event["kind"] != "signal"][-1]
    threads.append(
        {
            "tid": tid,
            "comm": "victim",
            "crashed": index == 0,
            "registers": registers(known[tid]),
            "syscall": dict(last, nr=numbers[last["name"]]),
            "missing": None,
        }
    )
write("threads.json", json.dumps(threads))
write(
    "incident.json",
    json.dumps(
        {
            "id": "20261121T150405.123Z-crash-victim-%d-9f3c2a" % pid,
            "rule": "crash",
            "kind": "signal",
            "time": "2026-11-21T15:04:05.123000000Z",
            "boot_id": "0123456789abcdef0123456789abcdef",
            "summary": "victim[%d] was killed by SIGSEGV (SEGV_MAPERR) at %s" % (pid, fault),
            "clocks": {"trigger_ns": TRIGGER},
            "process": {
                "pid": pid,
                "comm": "victim",
                "exe": gdb.current_progspace().filename,
                "build_id": gdb.lookup_objfile(gdb.current_progspace().filename).build_id,
                "unit": None,
            },
            "signal": {
                "number": 11,
                "name": "SIGSEGV",
                "code": 1,
                "code_name": "SEGV_MAPERR",
                "address": fault,
                "fatal": True,
            },
            "thread": {"tid": tids[0], "comm": "victim"},
            "core": {"join": "none", "reason": "RLIMIT_CORE was 0", "file": None},
            "memory": {
                "rss_bytes": {"total": 1 << 20},
                "layout": {"start_brk": hex(heap & ~0xFFF), "brk": hex(heap + 4096)},
            },
            "quality": {"complete": True, "lost": 0},
        }
    ),
)
gdb.execute("kill")
