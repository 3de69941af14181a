// What the kernel takes of a program that runs into a probe, on this machine: the way into it and out of it, which the
// run times of BPF programs do not have.
#pragma once

#include "daemon/probe/detacher.h"

#include <compare>
#include <cstdint>

namespace incident::daemon {

// The probes that a call runs into.
struct CallTraps {
    unsigned stepped = 0;  // at an instruction that the kernel single-steps
    unsigned returned = 0; // return probes
    unsigned emulated = 0;
    auto operator<=>(const CallTraps &) const = default; // more of the dearer kind is more
    CallTraps operator+(const CallTraps &other) const {
        return {stepped + other.stepped, returned + other.returned, emulated + other.emulated};
    }
};

struct TrapPrice {
    std::uint64_t stepped_ns = 0, returned_ns = 0, emulated_ns = 0;
    std::uint64_t of(const CallTraps &traps) const { // ns a call
        return traps.stepped * stepped_ns + traps.returned * returned_ns + traps.emulated * emulated_ns;
    }
};

// Puts probes on functions of this process that do nothing, and calls them: some milliseconds.  The programs find that
// the thread is not recorded and return; that little is in the price.  Error: the kernel refused them.
Result<TrapPrice> measure_trap_price(LatencyKernel &kernel, Detacher &detacher);

} // namespace incident::daemon
