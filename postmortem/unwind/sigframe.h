// A signal handler's return to the kernel, where no unwind information describes it.
#pragma once

#include "postmortem/unwind/process_memory.h"
#include "postmortem/unwind/registers.h"

#include <optional>

namespace incident::postmortem {

// mov $15,%rax (or %eax); syscall: rt_sigreturn(2).
bool is_sigreturn_at(std::uint64_t address, ProcessMemory &memory);
// The interrupted registers, of the frame the kernel left at the trampoline's stack pointer.  Nothing where
// its instruction pointer was not captured; unread is its address then.
std::optional<Registers> registers_of_sigframe(std::uint64_t stack_pointer, ProcessMemory &memory,
                                               std::uint64_t &unread);
// All of them; nothing where one was not captured.
std::optional<Registers> registers_of_sigframe_whole(std::uint64_t stack_pointer, ProcessMemory &memory);

// What the handler was called for.
struct FrameSiginfo {
    int signal = 0, code = 0;
    std::uint64_t address = 0; // the union's first word: si_addr of a fault
};
// The kernel writes it only for a handler that asks for it (SA_SIGINFO); else those bytes are anything.
std::optional<FrameSiginfo> siginfo_of_sigframe(std::uint64_t stack_pointer, ProcessMemory &memory);
// The address of the thread's last page fault, where its last trap was one; that is always there.
std::optional<std::uint64_t> page_fault_of_sigframe(std::uint64_t stack_pointer, ProcessMemory &memory);

} // namespace incident::postmortem
