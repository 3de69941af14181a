// Turns what the kernel side wrote about a heap into what a bundle holds.  It does no I/O.
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
    std::uint64_t history_since_ns = 0;    // since then it was kept again; 0: it was always kept
    std::uint64_t window_ns = 0;           // the window that rules want
    std::uint64_t read_ns = 0;
};

// At most so many epochs make a window.  A window begins with an epoch, so it is up to one epoch longer than wanted.
inline constexpr std::uint64_t epochs_a_window = HEAP_EPOCHS - 1;
// The shift of the shortest epochs (2^shift ns) of which so many are as long as the window.
constexpr std::uint64_t epoch_shift(std::uint64_t window_ns) {
    std::uint64_t shift = 20; // a millisecond
    while (shift < 63 && (epochs_a_window << shift) < window_ns)
        ++shift;
    return shift;
}

// Fills in everything that the reading tells.  The caller has set since_ns of the snapshot.
void add_reading(const HeapReading &reading, capture::HeapSnapshot &heap);

} // namespace incident::daemon
