// What was allocated at an address, one after the other, as history and the live allocations tell together.
#pragma once

#include "postmortem/heap/records.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace incident::postmortem {

// So close to an allocation and in none, an address is told by that one.
inline constexpr std::uint64_t heap_near = 64;

struct HeapEvent {
    std::uint64_t t_ns = 0;
    std::uint64_t stack = 0; // 0: not kept
    std::uint32_t tid = 0;
    std::uint8_t function = 0; // bpf::heap_function
};

struct HeapBlock {
    std::uint64_t start = 0, size = 0;
};

// From an allocation to its free.
struct Life {
    enum class End {
        none,   // it lives, as far as is known
        freed,  //
        reused, // its free was not recorded, but its address was given out again
        unseen, // its free was not recorded, and it is not among those alive: lost, or a realloc was under way
    };
    std::uint64_t start = 0, size = 0;
    bool size_known = true;
    std::optional<HeapEvent> allocated; // nothing: before the history begins, or its record was lost
    std::optional<HeapEvent> freed;
    std::vector<HeapEvent> freed_again; // with nothing allocated there in between, as far as was recorded
    std::optional<HeapBlock> resized_from, resized_to; // by a realloc
    std::uint64_t over_ns = UINT64_MAX;                // known to be over by then
    End end = End::none;

    std::uint64_t past_end() const { return size > UINT64_MAX - start ? UINT64_MAX : start + size; }
    bool covers(std::uint64_t address) const {
        return size_known && address >= start && (address < past_end() || (size == 0 && address == start));
    }
    bool alive_at(std::uint64_t t_ns) const {
        return (!allocated || allocated->t_ns <= t_ns) && t_ns < over_ns && end != End::unseen;
    }
};

// By the address they begin at, each in order of time.
using Lives = std::map<std::uint64_t, std::vector<Life>>;

// All that lived at the addresses asked for or near them.  One walk over the records, however many are asked for.
Lives lives_about(const Heap &heap, std::span<const std::uint64_t> addresses);

} // namespace incident::postmortem
