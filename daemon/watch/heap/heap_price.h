// Measures what recording a heap costs the recorded program for each call on this machine.  It uses two functions of
// the daemon that do nothing and that are probed like malloc and free.
#pragma once

#include "daemon/watch/heap/heap_process.h"

#include <cstdint>

namespace incident::daemon {

struct HeapPrice {
    std::uint64_t allocation_ns = 0, free_ns = 0; // added to each call; the kernel's traps included
};

// This takes a few milliseconds, and the time that the kernel needs to put probes.  history: measures with a history.
// slot: must not be in use.  Error: the functions could not be probed.
Result<HeapPrice> measure_heap_price(HeapKernel &kernel, std::unique_ptr<HeapSlot> slot, bool history,
                                     Detacher &detacher);

} // namespace incident::daemon
