// What recording a heap costs the recorded program per call, on this machine: measured on two
// functions of our own that do nothing, probed as malloc and free are.
#pragma once

#include "daemon/watch/heap/heap_process.h"

#include <cstdint>

namespace incident::daemon {

struct HeapPrice {
    std::uint64_t allocation_ns = 0, free_ns = 0; // added to each call; the kernel's traps included
};

// Takes a few milliseconds of calls, and what the kernel takes to put probes.  history: with it.  slot: not in use.
// Error: the functions could not be probed.
Result<HeapPrice> measure_heap_price(HeapKernel &kernel, std::unique_ptr<HeapSlot> slot, bool history,
                                     Detacher &detacher);

} // namespace incident::daemon
