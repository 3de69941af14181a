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

} // namespace incident::postmortem
