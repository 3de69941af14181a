// How much kernel memory the recording of one process's heap takes at most, byte for byte. The configuration is checked
// with this number, and the daemon subtracts it from [heap] memory for each process.
#pragma once

#include "rules/files/config.h"

#include <bit>

namespace incident::rules {

// The kernel allocates the elements of a hash map one by one from its slabs (BPF_F_NO_PREALLOC). An element takes a
// header of 48 bytes (struct htab_elem), 8 bytes for the key, the value, and 8 bytes for bpf_mem_alloc, rounded up to
// the size of a slab. The buckets are allocated at the start: 16 bytes each, as many as elements, rounded up to a power
// of two.
inline constexpr std::uint64_t heap_live_element = 96;    // 88 + 8 with struct heap_allocation
inline constexpr std::uint64_t heap_stack_element = 2048; // 1328 + 8 with struct heap_stack
inline constexpr std::uint64_t heap_bucket = 16;
inline constexpr std::uint64_t heap_history_record = 48; // struct heap_record, in an array

constexpr std::uint64_t heap_bytes(const Config::Heap &heap, Allocations level) {
    if (level == Allocations::Pages)
        return 0;
    const std::uint64_t live = heap.live, stacks = heap.stacks, history = heap.history;
    return live * heap_live_element + std::bit_ceil(live) * heap_bucket + stacks * heap_stack_element +
           std::bit_ceil(stacks) * heap_bucket + (level == Allocations::History ? history * heap_history_record : 0);
}

static_assert(heap_bytes({}, Allocations::History) == 131072 * 112 + 4096 * 2064 + 32768 * 48);

} // namespace incident::rules
