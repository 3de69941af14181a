"""Which recorded call or signal belongs to the selected frame, where that can be told for certain."""

import collections
import re

import gdb

from . import debuggee
from .text import ADDRESS_MASK, get, integer, string

# call_name: the thread's last recorded system call was made here; fatal_signal: this was taken here.  None: neither.
Belonging = collections.namedtuple("Belonging", "call_name fatal_signal")

# syscall, sysenter, int $0x80: what stands before the address a call returns to.
SYSCALL_INSTRUCTIONS = (b"\x0f\x05", b"\x0f\x34", b"\xcd\x80")

# The kernel leaves one of these in rax while a call is to be restarted (include/linux/errno.h: ERESTARTSYS,
# ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK), EINTR where it is not, ENOSYS on entry.
STILL_INSIDE = tuple(-number & ADDRESS_MASK for number in (512, 513, 514, 516, 4, 38))

# Library functions that make a system call of quite another name; a prefix ends in "*".
CALLERS = {
    "clock_nanosleep": ("nanosleep", "usleep", "sleep", "thrd_sleep"),
    "clone": ("fork", "vfork", "pthread_create*", "posix_spawn*", "spawni"),
    "clone3": ("clone*", "fork", "vfork", "pthread_create*", "posix_spawn*", "spawni"),
    "exit_group": ("exit",),
    "faccessat": ("access", "eaccess"),
    "futex": ("futex*", "lll_*", "pthread_*", "sem_*", "cnd_*", "mtx_*"),
    "mkdirat": ("mkdir",),
    "newfstatat": ("stat*", "lstat*", "fstat*", "fxstat*", "xstat*", "lxstat*"),
    "openat": ("open", "creat"),
    "ppoll": ("poll",),
    "prlimit64": ("getrlimit", "setrlimit"),
    "pselect6": ("select",),
    "readlinkat": ("readlink",),
    "recvfrom": ("recv",),
    "renameat": ("rename",),
    "renameat2": ("rename",),
    "rt_sigsuspend": ("pause",),
    "rt_sigtimedwait": ("sigwait*",),
    "sendto": ("send",),
    "tgkill": ("pthread_kill*", "raise", "gsignal", "abort"),
    "unlinkat": ("unlink", "rmdir", "remove"),
    "wait4": ("waitpid", "wait3"),
    "waitid": ("waitpid", "wait"),
}


def plain_function(name):
    """ "__GI___libc_read@@GLIBC_2.2.5" → "read" """
    name = re.sub(r"@.*|\(.*", "", name, flags=re.S)
    name = re.sub(r"^(_|GI_|libc_|new_|old_)+", "", name)
    return re.sub(r"(_nocancel|_cancel|_time64|_internal|_common|64|32)+$", "", name)


def plain_call(name):
    """ "rt_sigaction" → "sigaction", "accept4" → "accept" """
    return re.sub(r"(64|32|[2346])$", "", re.sub(r"^(rt_|new)", "", name))


def makes(function, call):
    """Whether a function of this name is one that makes this system call."""
    function = plain_function(function)
    if function in (call, plain_call(call)) or plain_call(function) == plain_call(call):
        return True
    return any(
        function.startswith(known[:-1]) if known.endswith("*") else function == known for known in CALLERS.get(call, ())
    )


def behind_syscall(frame):
    """Whether frame's next instruction stands just behind one that calls the kernel; None: its code is not there."""
    before = debuggee.memory(frame.pc() - 2, 2) if frame.pc() >= 2 else None
    return None if before is None else before in SYSCALL_INSTRUCTIONS


def registers_agree(frame, call):
    """Whether the newest frame's registers are those of a thread in this call, or just back from it."""
    if get(call, "in_flight") is True or get(call, "interrupted") is True:
        number = debuggee.register(frame, "orig_eax" if debuggee.is_i386() else "orig_rax")
        # The kernel forgets the number (-1) once it has made up its mind about a restart.
        inside = tuple(value & debuggee.word_mask() for value in STILL_INSIDE)
        decided = number == debuggee.word_mask() and result(frame) in inside
        return decided or (number is not None and number == integer(call, "nr"))
    ret = integer(call, "ret")
    return ret is not None and result(frame) == ret & debuggee.word_mask()


def result(frame):
    """The register that a system call returns its result in."""
    return debuggee.register(frame, "eax" if debuggee.is_i386() else "rax")


def of_selected_frame(incident, tid):
    frame = debuggee.selected_frame()
    if not frame:
        return Belonging(None, None)
    newest = gdb.newest_frame()
    site = behind_syscall(newest)
    call_name = _call(incident, tid, frame, newest, site)
    # Taken between two instructions of the newest frame, if not within a call.
    signal = None
    if frame.level() == 0 and not site:
        record = incident.incident()
        if integer(record, "thread", "tid") == tid and get(record, "signal", "fatal") is True:
            signal = string(record, "signal", "name") or None
    return Belonging(call_name, signal)


def _call(incident, tid, frame, newest, site):
    try:
        call = get(incident.thread(tid), "syscall")
    except gdb.GdbError:
        return None
    name = string(call, "name")
    if not name or site is False or not registers_agree(newest, call):
        return None
    if site and frame == newest:
        return name
    return name if frame.name() and makes(frame.name(), name) else None
