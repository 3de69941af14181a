"""Stacks through functions whose return was probed, in a core that has the kernel's trampolines still.

The kernel puts its trampoline's address where a probed function's return address stood, and dumps it so.  The bundle
says what stood there.  `incidentctl gdb` puts its copy of the core right by that, and mini.core never has them; for a
core opened as it is, gdb has to be told: an unwinder goes on from the trampoline, which gdb takes for a frame, and a
frame filter leaves that frame out of backtraces."""

import gdb
from gdb.unwinder import Unwinder, register_unwinder

from . import debuggee, text

NAME = "incident return probes"
PAGE = 4096
RETURNS_MAX = 1 << 18
KEPT = ("rbx", "rbp", "r12", "r13", "r14", "r15", "rsp")


def install(bundle):
    """Nothing where the core needs none of it."""
    forget()
    # Parsing what hundreds of threads left takes long; most bundles have nothing of it.
    if not debuggee.present() or not debuggee.is_x86_64() or '"return_probes"' not in bundle.plain("threads.json"):
        return
    try:
        known = list(returns(bundle))
    except gdb.GdbError:
        return  # the commands will say so
    replaced = {}
    for at, trampoline, back in known:
        if word(at) == trampoline:
            replaced.setdefault(at, back)
    if not replaced:
        return
    trampolines = {trampoline for at, trampoline, _ in known if at in replaced}
    register_unwinder(None, ReturnProbes(trampolines, replaced), replace=True)
    gdb.frame_filters[NAME] = WithoutTrampolines(trampolines)


def forget():
    """What an earlier bundle has installed."""
    gdb.frame_filters.pop(NAME, None)
    gdb.frame_unwinders[:] = [one for one in gdb.frame_unwinders if one.name != NAME]
    gdb.invalidate_cached_frames()


def returns(bundle):
    """(where on the stack, the trampoline, the return address): what can be true."""
    count = 0
    for thread in bundle.threads():
        for probe in text.items(text.get(thread, "stack", "return_probes")):
            at, trampoline, back = (hexadecimal(probe, key) for key in ("address", "trampoline", "return_address"))
            count += 1
            if count > RETURNS_MAX:
                return
            if at and trampoline and back is not None and at % 8 == 0 and trampoline % PAGE == 0:
                yield at, trampoline, back


def hexadecimal(probe, key):
    value = text.get(probe, key)
    try:
        return int(value, 16) & text.ADDRESS_MASK if isinstance(value, str) and len(value) <= 18 else None
    except ValueError:
        return None


def word(address):
    found = debuggee.memory(address, 8)
    return int.from_bytes(found, "little") if found else None


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class ReturnProbes(Unwinder):
    """Goes on from the trampoline: the stack pointer is that behind the return address, nothing else has changed."""

    def __init__(self, trampolines, replaced):
        super().__init__(NAME)
        self.trampolines, self.replaced = trampolines, replaced

    def __call__(self, pending):
        pc = pending.read_register("rip")
        if int(pc) & text.ADDRESS_MASK not in self.trampolines:
            return None
        sp = pending.read_register("rsp")
        back = self.replaced.get((int(sp) & text.ADDRESS_MASK) - 8)
        if back is None:
            return None
        unwound = pending.create_unwind_info(FrameId(sp, pc))
        for name in KEPT:
            unwound.add_saved_register(name, pending.read_register(name))
        unwound.add_saved_register("rip", gdb.Value(back).cast(pc.type))
        return unwound


class WithoutTrampolines:
    def __init__(self, trampolines):
        self.name, self.priority, self.enabled, self.trampolines = NAME, 100, True, trampolines

    def filter(self, frames):
        return (frame for frame in frames if frame.inferior_frame().pc() not in self.trampolines)
