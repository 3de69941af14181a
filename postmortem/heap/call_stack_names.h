// Call stacks of the heap by name: one place for a sentence, lines for a page, a line for a flame graph.
#pragma once

#include "postmortem/unwind/analysis.h"

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace incident::postmortem {

class CallStackNames {
public:
    explicit CallStackNames(const Analysis &analysis); // which must outlive it

    const CallStack *find(std::uint64_t id) const; // null: not unwound
    // The function that called the allocator; "" not known.
    std::string caller(std::uint64_t id) const;
    // One of these is among the callers next to the allocator.
    bool calls_through(std::uint64_t id, std::span<const std::string_view> functions) const;
    // Who called the allocator: the first frame that is neither its nor the C++ library's; "" not known.
    std::string place(std::uint64_t id) const;
    // "make_node+0x1f (list.c:41)", innermost first, without the allocation function itself.
    std::vector<std::string> lines(std::uint64_t id, std::size_t most) const;
    // "main;load;make_node;malloc": as flamegraph.pl and its kin take it, with " COUNT" behind.
    std::string folded(std::uint64_t id) const;

private:
    const Frame &frame(const CallStack &stack, std::size_t i) const { return analysis_.call_frames[stack.frames[i]]; }

    const Analysis &analysis_;
    std::unordered_map<std::uint64_t, const CallStack *> by_id_;
};

} // namespace incident::postmortem
