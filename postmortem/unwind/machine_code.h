// Decoding instructions (Zydis).
#pragma once

#include "postmortem/unwind/analysis.h"
#include "postmortem/unwind/process_memory.h"

#include <sys/user.h>

#include <optional>

namespace incident::postmortem {

// The instruction registers.rip points at; nothing where its bytes are not known or are none.
std::optional<Instruction> instruction_at(const user_regs_struct &registers, ProcessMemory &memory);

// What stands before a return address.
struct CallBefore {
    enum class Kind { call, no_call, unknown } kind = Kind::unknown; // unknown: the code is not there to be read
    std::optional<std::uint64_t> target;                             // of a direct call
};
CallBefore call_before(std::uint64_t return_address, ProcessMemory &memory);
// The call that ends at a return address, and where it leads with the registers as they are right behind it; nothing:
// no call is known to end there.
std::optional<CallToNowhere> call_ending_at(std::uint64_t return_address, const user_regs_struct &behind,
                                            ProcessMemory &memory);

// The beginning of a function that sets up a frame pointer.
struct Prologue {
    bool readable = false;               // else the rest says nothing
    bool frame_pointer = false;          // it has push %rbp, mov %rsp,%rbp
    std::uint64_t pushed = 0, moved = 0; // addresses behind these two
};
Prologue prologue_at(std::uint64_t function, ProcessMemory &memory);
bool is_return_at(std::uint64_t address, ProcessMemory &memory);

} // namespace incident::postmortem
