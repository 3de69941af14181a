"""What gdb knows of the process: threads by tid, registers, frames.  Looking around leaves the selection as it was."""

import contextlib

import gdb

from . import text

# Those that may hold an address, as threads.json calls them.
REGISTERS = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
REGISTERS_I386 = "eax ebx ecx edx esi edi ebp esp eip".split()


# LWP → the bundle's tid, where they differ: a process in a pid namespace dumps its core with the ids it knows itself
# (task_pid_vnr() in fs/binfmt_elf.c), while the bundle has those of the host.
_tid_of_lwp = {}


def tid(thread):
    """The bundle's tid of gdb's thread."""
    lwp = thread.ptid[1] or thread.ptid[2]
    return _tid_of_lwp.get(lwp, lwp)


def threads():
    """tid → gdb's thread."""
    known = {tid(thread): thread for thread in gdb.selected_inferior().threads()}
    return dict(sorted(known.items(), key=lambda item: item[1].num))


def learn_tids(incident, bundle_threads):
    """Once there is a core: which of its threads are which of the bundle's, whatever the core calls them."""
    _tid_of_lwp.clear()
    pid, inner = text.number(incident, "process", "pid"), text.number(incident, "process", "ns_pid")
    if not present() or not pid or not inner or pid == inner or pid in threads():
        return  # the same namespace, or a core with the bundle's own ids (mini.core)
    # A thread is known by where its stack is: no two of a process have theirs in one place.
    tids = {}
    for thread in bundle_threads:
        stack_pointer = text.number(thread, "registers", "rsp") or text.number(thread, "registers", "esp")
        if stack_pointer:
            tids.setdefault(stack_pointer, []).append(text.number(thread, "tid"))
    found = {}
    with selection_kept():
        for thread in gdb.selected_inferior().threads():
            frame = newest_frame(thread)
            similar = tids.get(register(frame, "sp"), []) if frame else []
            lwp = thread.ptid[1] or thread.ptid[2]
            if len(similar) == 1:
                found[lwp] = similar[0]
            elif lwp == inner:
                found[lwp] = pid
    _tid_of_lwp.update(found)


def present():
    """Whether there is a process or core; without one, symbols have no addresses yet."""
    return gdb.selected_thread() is not None


def selected_tid():
    thread = gdb.selected_thread()
    return tid(thread) if thread else None


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


def is_i386():
    """A 32-bit process."""
    try:
        return present() and gdb.selected_inferior().architecture().name() == "i386"
    except gdb.error:
        return False


def registers():
    """Those of the process that may hold an address."""
    return REGISTERS_I386 if is_i386() else REGISTERS


def word():
    """Bytes of an address."""
    return 4 if is_i386() else 8


def word_mask():
    return (1 << 8 * word()) - 1


def register(frame, name):
    """Unsigned; None where gdb cannot tell."""
    try:
        return int(frame.read_register(name)) & word_mask()
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
    return "thread %d (tid %d)" % (thread.num, tid(thread))


def tid_label(number, known):
    if number is None:
        return "a thread that is not named"
    return label(known[number]) if number in known else "tid %d" % number
