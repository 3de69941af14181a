"""`incident explain`: what an address is.  Each provider adds what it knows, and says nothing where it knows nothing.

A provider is a function of a Question that yields (label, text) lines; append it to PROVIDERS.  What it says must be
so: symbols, frames and registers are gdb's own answer, mappings the bundle's.
"""

import gdb

from . import debuggee, explain_heap, explain_registers, explain_space, explain_stack, mapping_calls, maps
from .bundle import bundle
from .command import Subcommand
from .text import ADDRESS_MASK, field, integer, number, printable, string, text, tone, write

CALLS_SHOWN = 8
WITH_NUMBER = (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_INT, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_CHAR)
# Signals whose siginfo has an address, in the words of sigaction(2).
WITH_ADDRESS = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")


class Question:
    """An address, and what to answer with."""

    def __init__(self, address, said, faulting=False):
        self.address, self.said, self.faulting = address & ADDRESS_MASK, said, faulting
        self.bundle = bundle()
        self.maps = maps.of_bundle(self.bundle)
        self.mapping = self.maps.find(self.address)
        self.threads = debuggee.threads()

    @property
    def unmapped(self):
        """Known not to be mapped."""
        return self.maps.complete and self.mapping is None


def symbol(question):
    """gdb's own answer; without a core, symbols have no addresses yet."""
    if not debuggee.present() or question.unmapped:
        return
    try:
        found = gdb.execute("info symbol 0x%x" % question.address, to_string=True).strip()
    except gdb.error:
        return
    if not found or found.startswith("No symbol matches"):
        return
    for line in found.split("\n"):
        yield "symbol", printable(line)
    place = gdb.find_pc_line(question.address)
    if place.symtab and place.line:
        yield "source", printable("%s:%d" % (place.symtab.filename, place.line))


def mapping_history(question):
    calls = mapping_calls.covering(question.bundle, question.address)
    trigger = question.bundle.trigger()
    if len(calls) > CALLS_SHOWN:
        earlier = len(calls) - CALLS_SHOWN
        yield "history", "%d earlier calls about this memory (incident timeline -kind syscall)" % earlier
    for call in calls[-CALLS_SHOWN:]:
        yield "history", mapping_calls.line(call, trigger, lambda tid: debuggee.tid_label(tid, question.threads))
    # The calls in between were not recorded, or are overwritten.
    after = calls[-1].did if calls else ""
    if after in ("unmapped", "moved away") and question.mapping and question.maps.complete:
        yield "history", "mapped again since; what mapped it is not recorded"
    elif after in ("mapped", "its protection set", "its contents given up") and question.unmapped:
        yield "history", "not mapped any more when the bundle was made; what unmapped it is not recorded"


PROVIDERS = [
    explain_space.place,
    explain_space.mapping,
    explain_space.layout,
    explain_heap.allocation,
    mapping_history,
    symbol,
    explain_stack.stacks,
    explain_registers.instruction,
    explain_registers.near,
]


class Explain(Subcommand):
    """What an address is: its mapping, symbol, stack and frame, and which registers point near it.

Usage: incident explain [ADDRESS|EXPRESSION]
  incident explain               the faulting address
  incident explain 0x7f0012345678
  incident explain $rdi          a register of the selected frame
  incident explain list->next    any expression with an address for its value; of arrays, structures
                                 and functions, where they are

Mappings are those of the bundle (process/maps), mapping history is what was recorded of mmap, munmap, mremap,
brk, mprotect and madvise; allocations are those the heap recorder saw, where a rule asked for it; symbols, frames and registers are gdb's.  What is not known is not said."""

    name = "explain"

    def candidates(self, before, typed):
        return [] if before else ["$" + name for name in debuggee.registers() + ["pc", "sp", "fp"]]

    def run(self, argument):
        question = evaluated(argument) if argument else faulting_address()
        head = "0x%x" % question.address
        write(tone("1", head) + ("  " + question.said if question.said and question.said != head else ""))
        with debuggee.selection_kept():
            for provider in PROVIDERS:
                last = None
                for label, line in provider(question):
                    field("" if label == last else label, line)
                    last = label


def evaluated(expression):
    address = recorded_register(expression)
    if address is not None:
        return Question(address, printable(expression) + ", as the bundle has it")
    value = gdb.parse_and_eval(expression)
    kind = value.type.strip_typedefs().code
    if kind in (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", gdb.TYPE_CODE_REF)):
        value = value.referenced_value()
        kind = value.type.strip_typedefs().code
    if kind in (gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_FUNC):
        if value.address is None:
            raise gdb.GdbError("'%s' is not in memory" % printable(expression))
        value = value.address
    elif kind not in WITH_NUMBER:
        raise gdb.GdbError("'%s' has no address for its value" % printable(expression))
    return Question(int(value), printable(expression))


def recorded_register(expression):
    """$rdi where gdb has no process: the bundle's, of the thread it happened in."""
    if debuggee.present() or not expression.startswith("$"):
        return None
    names = {"pc": ("rip", "eip"), "sp": ("rsp", "esp"), "fp": ("rbp", "ebp")}.get(expression[1:], (expression[1:],))
    incident = bundle()
    thread = incident.thread(integer(incident.incident(), "thread", "tid"))
    known = debuggee.REGISTERS + debuggee.REGISTERS_I386
    values = [number(thread, "registers", name) for name in names if name in known]
    return next((value for value in values if value is not None), None)


def faulting_address():
    incident = bundle().incident()
    name, code = string(incident, "signal", "name"), integer(incident, "signal", "code")
    if name not in WITH_ADDRESS:
        raise gdb.GdbError("%s has no address: give one, or an expression" % ("this incident" if not name else name))
    # Codes of the kernel's own faults are positive, but for SI_KERNEL (128): a general protection fault, for which
    # the processor tells no address (arch/x86/kernel/traps.c, exc_general_protection).
    address = number(incident, "signal", "address")
    if code is None or code <= 0 or code == 128 or address is None:
        said = string(incident, "signal", "code_name") or text(incident, "signal", "code")
        why = ": a general protection fault, as of an address that is not canonical" if code == 128 else ""
        hint = "'incident explain $REGISTER' explains what a register holds"
        raise gdb.GdbError("this %s (%s) has no address%s; %s" % (name, said, why, hint))
    said = "the address of %s (%s)" % (name, string(incident, "signal", "code_name"))
    return Question(address, said, faulting=True)
