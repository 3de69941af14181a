# Sourced by gdb with the victim stopped where it crashed: writes what a bundle would hold of it.
# $out: directory.  $stack_max: bytes of each thread's stack.
import json
import os

import gdb

OUT = gdb.convenience_variable("out").string()
STACK_MAX = int(gdb.convenience_variable("stack_max"))
WINDOW = 256
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
             "fs_base gs_base ds es fs gs").split()
NARROW = {"rbp": "ebp", "rbx": "ebx", "rax": "eax", "rcx": "ecx", "rdx": "edx", "rsi": "esi", "rdi": "edi",
          "orig_rax": "orig_eax", "rip": "eip", "rsp": "esp"}

inferior = gdb.selected_inferior()
with open(f"/proc/{inferior.pid}/maps") as file:
    maps = file.read()
with open(f"/proc/{inferior.pid}/auxv", "rb") as file:
    auxv = file.read()
spans = []
for line in maps.splitlines():
    fields = line.split()
    start, end = (int(x, 16) for x in fields[0].split("-"))
    if fields[1][0] == "r" and "[vvar" not in line and "[vsyscall]" not in line:
        spans.append((start, end, line))

pieces, memory = [], bytearray()


def add(start, end):
    for low, high, _ in spans:
        a, b = max(low, start), min(high, end)
        if a < b:
            data = bytes(inferior.read_memory(a, b - a))
            pieces.append({"address": a, "offset": len(memory), "length": len(data)})
            memory.extend(data)


crashed = gdb.selected_thread()
is_narrow = gdb.newest_frame().architecture().name().startswith("i386") and "x86-64" not in \
    gdb.newest_frame().architecture().name()


def value_of(frame, name):
    if not is_narrow:
        return int(frame.read_register(name)) & (1 << 64) - 1
    try:
        return int(frame.read_register(NARROW.get(name, name))) & (1 << 32) - 1
    except ValueError:
        return 0  # it has none of that name


threads = []
for thread in inferior.threads():
    thread.switch()
    frame = gdb.newest_frame()
    registers = {name: value_of(frame, name) for name in REGISTERS}
    threads.append({"tid": thread.ptid[1], "crashed": thread == crashed, "registers": registers})
    for low, high, _ in spans:
        if low <= registers["rsp"] < high:
            add(max(low, registers["rsp"] - 128), min(high, registers["rsp"] + STACK_MAX))
    for name in REGISTERS[:16]:
        add(max(0, registers[name] - WINDOW), registers[name] + WINDOW)
for low, high, line in spans:
    if "[vdso]" in line:
        add(low, high)
    if "[stack]" in line and gdb.convenience_variable("whole_stack"):
        add(max(low, high - STACK_MAX), high)
    if "[heap]" in line and gdb.convenience_variable("heap"):
        add(low, high)
crashed.switch()
with open(f"{OUT}/memory.bin", "wb") as file:
    file.write(memory)
with open(f"{OUT}/capture.json", "w") as file:
    json.dump({"pid": inferior.pid, "maps": maps, "auxv": auxv.hex(), "threads": threads, "memory": pieces}, file)
gdb.execute(f"generate-core-file {OUT}/core")
