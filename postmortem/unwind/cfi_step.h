// One frame to its caller, by call frame information.
#pragma once

#include "postmortem/unwind/expression.h"
#include "postmortem/unwind/handles.h"

#include <bitset>

namespace incident::postmortem {

struct CfiStep {
    enum class Kind {
        caller,    // registers are the caller's
        outermost, // the rules say that there is no caller
        unknown,   // see why
    } kind = Kind::unknown;
    Registers registers;
    std::bitset<17> saved; // those the frame has saved, to use them itself
    std::uint64_t cfa = 0;
    std::string why;
    std::optional<std::uint64_t> unread; // the address that was not captured, where that is why
};

// The frame is a signal's trampoline: its caller was interrupted, at exactly its address.
bool is_signal_frame(Dwarf_Frame *frame);
// Its rules begin to hold at that address: as a rule a function's first.
bool begins_at(Dwarf_Frame *frame, std::uint64_t linked);
std::optional<std::uint64_t> cfa_of(Dwarf_Frame *frame, const Registers &registers, ProcessMemory &memory,
                                    std::uint64_t bias);
CfiStep step_by_cfi(Dwarf_Frame *frame, const Registers &registers, ProcessMemory &memory, std::uint64_t bias);

} // namespace incident::postmortem
