// The user stack as far as it can be told without unwind tables: the reader of a bundle unwinds
// it properly (CFI) from the stack bytes in memory.bin.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/render/render_modules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

struct StackWalk {
    std::vector<std::uint64_t> frames; // addresses, innermost first; from the second on return addresses
    std::string how;
    std::string stopped; // why it ends where it ends: it is never known to be whole
};

// Frame pointers are followed only while each step is plausible: the saved pointer lies in the
// captured bytes above the one before it, and the return address in an executable mapping.
StackWalk walk_stack(const ThreadSnapshot &thread, const Modules &modules);

// The word at a stack address, where it was captured.
std::optional<std::uint64_t> stack_word(const ThreadSnapshot &thread, std::uint64_t address);

} // namespace incident::capture
