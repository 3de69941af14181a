// Walks a thread's stack frame by frame, with registers. Names are added later (stack.h).
#pragma once

#include "postmortem/unwind/module_set.h"
#include "postmortem/unwind/registers.h"

#include <bitset>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

struct WalkFrame {
    Registers registers;
    UserAddress ip;
    bool exact = false; // ip is where the thread was or was interrupted; false: ip is after a call
    bool signal_frame = false;
    bool by_cfi = false; // the next frame was found by call frame information
    std::optional<std::uint64_t> cfa;
    std::bitset<17> saved; // registers that its function uses itself, after it has saved the caller's values
    std::string how;       // Frame::how

    // An address within the frame's current instruction. The return address itself will not do: after a call that does
    // not return, another function may begin.
    UserAddress look_up() const { return exact || signal_frame || ip == UserAddress() ? ip : ip - 1; }
};

struct Walk {
    std::vector<WalkFrame> frames;
    bool outermost = false; // the last frame has no caller
    std::string reason;     // if it has no outermost frame: why it ends there
    std::string doubt;      // why frames may be missing before its end; "": none are missing
};

Walk walk_stack(const user_regs_struct &registers, ModuleSet &modules, std::size_t frames_max);

// "CFI", "CFI and frame pointers" …: how all of its frames were found.
std::string how_walked(const Walk &walk);

} // namespace incident::postmortem
