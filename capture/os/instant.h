// Instants, each by the clock it was read from: they cannot be compared with, or taken for, another clock's.  The only
// way from one clock to another is by readings of both taken together (capture::Clocks).
#pragma once

#include <compare>
#include <cstdint>
#include <ctime>

namespace incident::capture {

template <clockid_t> struct Instant {
    std::uint64_t ns = 0;
    auto operator<=>(const Instant &) const = default;
    // Modulo 2^64: hostile times give odd dates, no more.
    Instant operator+(std::uint64_t duration_ns) const { return {ns + duration_ns}; }
    Instant operator-(std::uint64_t duration_ns) const { return {ns - duration_ns}; }
};

using MonotonicTime = Instant<CLOCK_MONOTONIC>; // bpf_ktime_get_ns(), what events say; stands still in suspend
using BootTime = Instant<CLOCK_BOOTTIME>;       // starts of processes and threads; goes on in suspend
using WallTime = Instant<CLOCK_REALTIME>;       // since 1970; may be set

} // namespace incident::capture
