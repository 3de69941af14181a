"""What gdb knows of the process: threads by tid, registers, frames.  Looking around leaves the selection as it was."""

import contextlib

import gdb

from . import text

# Those that may hold an address, as threads.json calls them.
REGISTERS = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()


def threads():
    """tid → gdb's thread; in a core the LWP is the tid the kernel knew."""
    known = {thread.ptid[1] or thread.ptid[2]: thread for thread in gdb.selected_inferior().threads()}
    return dict(sorted(known.items(), key=lambda item: item[1].num))


def present():
    """Whether there is a process or core; without one, symbols have no addresses yet."""
    return gdb.selected_thread() is not None


def selected_tid():
    thread = gdb.selected_thread()
    return (thread.ptid[1] or thread.ptid[2]) if thread else None


def selected_frame():
    try:
        return gdb.selected_frame()
    except gdb.error:  # no process, or nothing readable of its stack
        return None


@contextlib.contextmanager
def selection_kept():
    thread, frame = gdb.selected_thread(), selected_frame()
    try:
        yield
    finally:
        if thread and thread.is_valid():
            thread.switch()
            if frame and frame.is_valid():
                frame.select()


def is_x86_64():
    if not present():
        return True  # what incidentd records; gdb's own default is another
    try:
        return gdb.selected_inferior().architecture().name().startswith("i386:x86-64")
    except gdb.error:
        return True


def register(frame, name):
    """Unsigned; None where gdb cannot tell."""
    try:
        return int(frame.read_register(name)) & text.ADDRESS_MASK
    except (gdb.error, ValueError):
        return None


def memory(address, length):
    """Bytes of the process, from the core or the files it had mapped; None where gdb has none."""
    try:
        return bytes(gdb.selected_inferior().read_memory(address, length))
    except (gdb.error, OverflowError):
        return None


def newest_frame(thread):
    """Of a thread, which is selected by that."""
    thread.switch()
    try:
        return gdb.newest_frame()
    except gdb.error:
        return None


def label(thread):
    """ "thread 2 (tid 4243)" """
    return "thread %d (tid %d)" % (thread.num, thread.ptid[1] or thread.ptid[2])


def tid_label(tid, known):
    if tid is None:
        return "a thread that is not named"
    return label(known[tid]) if tid in known else "tid %d" % tid
