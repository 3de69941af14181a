// Decodes instructions (Zydis).
#pragma once

#include "postmortem/unwind/analysis.h"
#include "postmortem/unwind/process_memory.h"

#include <sys/user.h>

#include <optional>
#include <vector>

namespace incident::postmortem {

// The instruction at registers.rip; not set if its bytes are unknown or invalid.
std::optional<Instruction> instruction_at(const user_regs_struct &registers, ProcessMemory &memory);

// The instruction before a return address.
struct CallBefore {
    enum class Kind { call, no_call, unknown } kind = Kind::unknown; // unknown: the code cannot be read
    std::optional<std::uint64_t> target;                             // for a direct call
};
CallBefore call_before(std::uint64_t return_address, ProcessMemory &memory);
// The call that ends at a return address, and its target with the registers right after it. Not set if no call is known
// to end there.
std::optional<CallToNowhere> call_ending_at(std::uint64_t return_address, const user_regs_struct &behind,
                                            ProcessMemory &memory);

// The beginning of a function that sets up a frame pointer.
struct Prologue {
    bool readable = false;               // if false, the other members have no meaning
    bool frame_pointer = false;          // it has push %rbp, mov %rsp,%rbp
    std::uint64_t pushed = 0, moved = 0; // the addresses after these two instructions
};
Prologue prologue_at(std::uint64_t function, ProcessMemory &memory);
bool is_return_at(std::uint64_t address, ProcessMemory &memory);
// The places (registers.h) of the registers that a function's end pops from there on, in that order, before its ret;
// not set if anything else stands there.
std::optional<std::vector<unsigned>> pops_at(std::uint64_t address, ProcessMemory &memory);

} // namespace incident::postmortem
