#!/usr/bin/env python3
"""bpf_load.py OBJECT: loads each BPF program of an object by itself and prints a line
for it: what the verifier went through, or the end of what it said.  By libbpf itself
(ctypes), because bpftool -d logs every instruction, which takes minutes here, and
stops at the first program that fails."""

import ctypes
import errno
import os
import re
import sys
import time

libbpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
for name in ("bpf_object__open_file", "bpf_object__next_program"):
    getattr(libbpf, name).restype = ctypes.c_void_p
libbpf.bpf_program__name.restype = ctypes.c_char_p
libbpf.bpf_program__name.argtypes = [ctypes.c_void_p]
libbpf.bpf_object__next_program.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
libbpf.bpf_object__open_file.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
libbpf.bpf_object__load.argtypes = [ctypes.c_void_p]
libbpf.bpf_program__set_autoload.argtypes = [ctypes.c_void_p, ctypes.c_bool]
libbpf.bpf_program__set_log_level.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
libbpf.bpf_program__set_log_buf.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
# The tracepoint has one name or the other (bpf/io_uring.bpf.c), and the daemon leaves out what the kernel has not.
ONE_OF = {"uring_submits", "uring_submits_sqe"}
VERBOSE, STATS = 1, 4  # BPF_LOG_LEVEL1, BPF_LOG_STATS (include/linux/bpf_verifier.h)


def programs(obj):
    p = libbpf.bpf_object__next_program(obj, None)
    while p:
        yield p
        p = libbpf.bpf_object__next_program(obj, p)


def load(path, wanted, level):
    """(0 or -errno, the verifier's log, seconds)"""
    obj = libbpf.bpf_object__open_file(path.encode(), None)
    log = ctypes.create_string_buffer(16 << 20)
    for p in programs(obj):
        if libbpf.bpf_program__name(p).decode() == wanted:
            libbpf.bpf_program__set_autoload(p, True)
            libbpf.bpf_program__set_log_level(p, level)
            libbpf.bpf_program__set_log_buf(p, log, len(log))
        else:
            libbpf.bpf_program__set_autoload(p, False)
    start = time.monotonic()
    status = libbpf.bpf_object__load(obj)
    libbpf.bpf_object__close(ctypes.c_void_p(obj))
    return status, log.value.decode(errors="replace"), time.monotonic() - start


path = sys.argv[1]
obj = libbpf.bpf_object__open_file(path.encode(), None)
if not obj:
    sys.exit(f"not ok: cannot open {path}: {os.strerror(ctypes.get_errno())}")
left_out = set()
for name in [libbpf.bpf_program__name(p).decode() for p in programs(obj)]:
    status, log, seconds = load(path, name, STATS)
    stats = re.search(r"processed (\d+) insns.*", log)
    if status == 0:
        print(f"ok {name}: {stats.group(0) if stats else ''}, {seconds:.1f} s", flush=True)
        continue
    if status == -errno.ESRCH and name in ONE_OF:
        print(f"# {name} left out: this kernel has no such hook", flush=True)
        left_out.add(name)
        continue
    print(f"not ok {name}: {os.strerror(-status)}, {seconds:.1f} s", flush=True)
    # Once more with the instructions, unless it was refused for its size: what is
    # wanted then is the count, and a log of a million of them takes minutes.
    if not (stats and int(stats.group(1)) > 100_000):
        log = load(path, name, VERBOSE | STATS)[1]
    for line in log.splitlines()[-50:]:
        print(f"# {line}", flush=True)
if left_out == ONE_OF:
    print(f"not ok {', '.join(sorted(ONE_OF))}: none of them", flush=True)
