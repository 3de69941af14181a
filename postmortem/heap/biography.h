// The biography of a pointer: the allocation that it points into or close to, and what happened to that allocation.
#pragma once

#include "postmortem/heap/lives.h"

#include <string_view>

namespace incident::postmortem {

struct Biography {
    enum class Where { unknown, inside, past, before };
    std::uint64_t address = 0;
    Where where = Where::unknown;
    std::uint64_t offset =
        0; // inside: from the start; past: from the end (0: the first byte past it); before: to the start
    std::optional<Life> life;            // that allocation; of several the live one, or the one freed last
    std::optional<Life> previous;        // what lived at that address before
    std::size_t earlier = 0;             // how many more lived there before `previous`
    std::optional<HeapBlock> next_above; // if it is past the end: the next live allocation above
    std::optional<Life> below;           // if it is inside: the live allocation that ends just below
    bool inside_freed() const { return where == Where::inside && life->end == Life::End::freed; }
};

// The biography at the time t_ns. Later allocations are ignored; what was freed later is still alive.
Biography biography(const Lives &lives, std::uint64_t address, std::uint64_t t_ns);

// "malloc": the C library's name of the function; "" no such function.
std::string_view function_name_of(std::uint8_t function);

} // namespace incident::postmortem
