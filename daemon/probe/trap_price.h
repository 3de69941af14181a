// Measures how long the kernel takes on this machine when a program runs into a probe.  The run times of BPF programs
// do not contain the way into the kernel and back.
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
    auto operator<=>(const CallTraps &) const = default; // the costlier kind is compared first
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

// Puts probes on functions of this process that do nothing, and calls them; this takes some milliseconds.  The BPF
// programs find that the thread is not recorded and return, and this short time is part of the price.  Error: the
// kernel refused the probes.
Result<TrapPrice> measure_trap_price(LatencyKernel &kernel, Detacher &detacher);

} // namespace incident::daemon
