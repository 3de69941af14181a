// What the kernel side wrote of a heap, as a bundle will hold it.  Pure.
#pragma once

#include "bpf/heap.h"
#include "capture/collect/heap.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace incident::daemon {

struct HeapReading {
    bpf::heap_account account{};
    std::vector<std::pair<std::uint64_t, bpf::heap_stack>> stacks;
    std::vector<std::pair<std::uint64_t, bpf::heap_allocation>> live;
    std::vector<bpf::heap_record> history; // as HeapMaps::history() gives it
    std::uint64_t history_since_ns = 0;    // it was kept again from here on; 0: all the time
    std::uint64_t window_ns = 0;           // wanted
    std::uint64_t read_ns = 0;
};

// At most so many epochs make a window.  It begins with one, so it is up to an epoch longer than wanted.
inline constexpr std::uint64_t epochs_a_window = HEAP_EPOCHS - 1;
// The shortest epochs, 2^shift ns, that so many of them are as long as the window.
constexpr std::uint64_t epoch_shift(std::uint64_t window_ns) {
    std::uint64_t shift = 20; // a millisecond
    while (shift < 63 && (epochs_a_window << shift) < window_ns)
        ++shift;
    return shift;
}

// Fills in all that the reading tells; since_ns of the snapshot is set.
void add_reading(const HeapReading &reading, capture::HeapSnapshot &heap);

} // namespace incident::daemon
