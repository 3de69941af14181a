// Whether a register still holds what it had when its function was entered: if it is one that arguments
// are passed in (psABI, 3.2.3), it is the argument.
#pragma once

#include "postmortem/unwind/process_memory.h"

#include <cstdint>
#include <string_view>

namespace incident::postmortem {

// 1 for "rdi", 2 for "rsi" … 6 for "r9"; 0: none that arguments are passed in.
unsigned argument_number(std::string_view reg);

// Reads the function's code, [entry, end), straight through, and follows the jumps that lead out of it.  true: nothing
// on any way from entry to ip can have written to reg.  false: something may have, or it cannot be told (a call, a jump
// back, code that is not there).
bool untouched_since_entry(std::string_view reg, std::uint64_t entry, std::uint64_t end, std::uint64_t ip,
                           ProcessMemory &memory);

} // namespace incident::postmortem
