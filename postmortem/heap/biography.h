// The biography of a pointer: which allocation it points into, or just beside, and what became of that.
#pragma once

#include "postmortem/heap/lives.h"

#include <string_view>

namespace incident::postmortem {

struct Biography {
    enum class Where { unknown, inside, past, before };
    std::uint64_t address = 0;
    Where where = Where::unknown;
    std::uint64_t offset = 0;            // from the start, past the end (0: the first byte past it), before the start
    std::optional<Life> life;            // that one; of several the one alive, else the last to be freed
    std::optional<Life> previous;        // what lived at that address before
    std::size_t earlier = 0;             // and how many more before that one
    std::optional<HeapBlock> next_above; // where it is past the end: what begins just above, being alive
    std::optional<Life> below;           // where it is inside: what ends just below it, being alive
    bool inside_freed() const { return where == Where::inside && life->end == Life::End::freed; }
};

// As of t_ns: what was allocated later is not looked at, what was freed later is alive.
Biography biography(const Lives &lives, std::uint64_t address, std::uint64_t t_ns);

// "malloc", as the C library has it; "" no such function.
std::string_view function_name_of(std::uint8_t function);

} // namespace incident::postmortem
