// How a function is left: its ret instructions, for programs that cannot bear a return probe.
#pragma once

#include "capture/os/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace incident::daemon {

struct Leaves {
    std::vector<std::uint64_t> returns; // offsets of ret instructions from the entry; at least one
    bool jumps_out = false; // it can also end by a jump to another function: what that calls last, who knows
};

// code: all of the function.  Error: an instruction is not known, there is no ret, or too many.
Result<Leaves> find_leaves(std::span<const std::uint8_t> code);

} // namespace incident::daemon
