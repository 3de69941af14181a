// Steps from one frame to its caller by call frame information.
#pragma once

#include "postmortem/unwind/expression.h"
#include "postmortem/unwind/handles.h"

#include <bitset>

namespace incident::postmortem {

struct CfiStep {
    enum class Kind {
        caller,    // `registers` are the caller's
        outermost, // the rules say that there is no caller
        unknown,   // `why` says the reason
    } kind = Kind::unknown;
    Registers registers;
    std::bitset<17> saved; // registers that the frame has saved, to use them itself
    std::uint64_t cfa = 0;
    std::string why;
    std::optional<std::uint64_t> unread; // the address, if the reason is that it was not captured
};

// The frame is a signal's trampoline, so its caller was interrupted at exactly its address.
bool is_signal_frame(Dwarf_Frame *frame);
// The address from which its rules hold, usually the start of a function.
bool begins_at(Dwarf_Frame *frame, LinkAddress linked);
std::optional<std::uint64_t> cfa_of(Dwarf_Frame *frame, const Registers &registers, ProcessMemory &memory,
                                    LoadBias bias);
CfiStep step_by_cfi(Dwarf_Frame *frame, const Registers &registers, ProcessMemory &memory, LoadBias bias);

} // namespace incident::postmortem
