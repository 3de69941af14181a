// The allocations at an address, one after the other, from the history and the live allocations.
#pragma once

#include "postmortem/heap/records.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace incident::postmortem {

// An address in no allocation is described by an allocation that is at most this close.
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

// The time from an allocation to its free.
struct Life {
    enum class End {
        none,   // it is alive, as far as is known
        freed,  //
        reused, // its free was not recorded, but its address was allocated again
        unseen, // its free was not recorded, but it is not alive: the record was lost, or a realloc was under way
    };
    std::uint64_t start = 0, size = 0;
    bool size_known = true;
    std::optional<HeapEvent> allocated; // not set: it was before the history begins, or its record was lost
    std::optional<HeapEvent> freed;
    std::vector<HeapEvent> freed_again;                // later frees, with no allocation recorded in between
    std::optional<HeapBlock> resized_from, resized_to; // by a realloc
    std::uint64_t over_ns = UINT64_MAX;                // at this time it is known to have ended
    End end = End::none;

    std::uint64_t past_end() const { return size > UINT64_MAX - start ? UINT64_MAX : start + size; }
    bool covers(std::uint64_t address) const {
        return size_known && address >= start && (address < past_end() || (size == 0 && address == start));
    }
    bool alive_at(std::uint64_t t_ns) const {
        return (!allocated || allocated->t_ns <= t_ns) && t_ns < over_ns && end != End::unseen;
    }
};

// Lives by their start address, each list in order of time.
using Lives = std::map<std::uint64_t, std::vector<Life>>;

// The lives at or near the given addresses. It walks over the records once, however many addresses there are.
Lives lives_about(const Heap &heap, std::span<const std::uint64_t> addresses);

} // namespace incident::postmortem
