// Finds the ret instructions of a function.  They are probed in programs that a return probe would harm.
#pragma once

#include "capture/os/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace incident::daemon {

struct Leaves {
    std::vector<std::uint64_t> returns; // offsets of ret instructions from the entry; at least one
    bool jumps_out = false;             // it can also end by a jump to another function, whose end is not known
};

// code: the whole function.  Error: an instruction is not known, or there is no ret, or there are too many.
Result<Leaves> find_leaves(std::span<const std::uint8_t> code);

} // namespace incident::daemon
