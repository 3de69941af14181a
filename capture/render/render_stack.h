// Walks the user stack as far as that is possible without unwind tables.  The reader of a bundle unwinds it properly
// (with CFI) from the stack bytes in memory.bin.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/render/render_modules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::capture {

struct StackWalk {
    std::vector<std::uint64_t> frames; // addresses, innermost first; from the second on return addresses
    std::string how;
    std::string stopped; // why the walk ended; the stack is never known to be whole
};

// Follows frame pointers only while each step is plausible: the saved pointer must be in the captured bytes above the
// one before, and the return address in an executable mapping.
StackWalk walk_stack(const ThreadSnapshot &thread, const Modules &modules);

// The word at a stack address, as wide as the thread's registers, if it was captured.
std::optional<std::uint64_t> stack_word(const ThreadSnapshot &thread, std::uint64_t address);

} // namespace incident::capture
