// Names the heap's call stacks: as a place in a sentence, as lines on a page, as a line for a flame graph.
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
    // True if one of these functions is among the callers next to the allocator.
    bool calls_through(std::uint64_t id, std::span<const std::string_view> functions) const;
    // The place that called the allocator: the first frame outside the allocator and the C++ library; "" not known.
    std::string place(std::uint64_t id) const;
    // "make_node+0x1f (list.c:41)", innermost first, without the allocation function itself.
    std::vector<std::string> lines(std::uint64_t id, std::size_t most) const;
    // "main;load;make_node;malloc": the format of flamegraph.pl, which expects " COUNT" after it.
    std::string folded(std::uint64_t id) const;

private:
    const Frame &frame(const CallStack &stack, std::size_t i) const { return analysis_.call_frames[stack.frames[i]]; }

    const Analysis &analysis_;
    std::unordered_map<std::uint64_t, const CallStack *> by_id_;
};

} // namespace incident::postmortem
