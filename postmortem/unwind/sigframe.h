// Handles a signal handler's return to the kernel if no unwind information describes it.
#pragma once

#include "postmortem/unwind/process_memory.h"
#include "postmortem/unwind/registers.h"

#include <optional>

namespace incident::postmortem {

// The call that ends a handler, which says what the kernel has put on the stack for it: struct rt_sigframe, or i386's
// sigframe_ia32 for a handler without SA_SIGINFO.
enum class Sigreturn { none, rt, old };

// mov $15,%rax (or %eax); syscall: rt_sigreturn(2).  Of i386: mov $173,%eax; int $0x80, and before sigreturn(2)'s 119 a
// pop %eax (arch/x86/entry/vdso/vdso32/sigreturn.S).
Sigreturn sigreturn_at(std::uint64_t address, ProcessMemory &memory);
// The interrupted registers, from the frame that the kernel put at the trampoline's stack pointer. Not set if its
// instruction pointer was not captured; `unread` is then its address.
std::optional<Registers> registers_of_sigframe(std::uint64_t stack_pointer, Sigreturn kind, ProcessMemory &memory,
                                               std::uint64_t &unread);
// All interrupted registers; not set if one was not captured.
std::optional<Registers> registers_of_sigframe_whole(std::uint64_t stack_pointer, Sigreturn kind,
                                                     ProcessMemory &memory);

// The signal that the handler was called for.
struct FrameSiginfo {
    int signal = 0, code = 0;
    std::uint64_t address = 0; // the union's first word: si_addr of a fault
};
// The kernel writes it only for a handler with SA_SIGINFO; for other handlers these bytes have no meaning.
std::optional<FrameSiginfo> siginfo_of_sigframe(std::uint64_t stack_pointer, Sigreturn kind, ProcessMemory &memory);
// The address of the thread's last page fault, if its last trap was one. The kernel always writes it.
std::optional<std::uint64_t> page_fault_of_sigframe(std::uint64_t stack_pointer, Sigreturn kind, ProcessMemory &memory);

} // namespace incident::postmortem
