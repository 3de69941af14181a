// Decides whether a register still has the value that it had when its function was entered. If arguments are passed in
// this register (psABI, 3.2.3), the value is then the argument.
#pragma once

#include "postmortem/unwind/process_memory.h"

#include <cstdint>
#include <string_view>

namespace incident::postmortem {

// 1 for "rdi", 2 for "rsi" … 6 for "r9"; 0: no arguments are passed in it.
unsigned argument_number(std::string_view reg);

// Reads the function's code, [entry, end), from beginning to end, and follows the jumps that lead out of it. Returns
// true if nothing on any way from entry to ip can have written to reg. Returns false if something may have, or if that
// cannot be decided (a call, a jump back, code that is not known).
bool untouched_since_entry(std::string_view reg, std::uint64_t entry, std::uint64_t end, std::uint64_t ip,
                           ProcessMemory &memory);

} // namespace incident::postmortem
