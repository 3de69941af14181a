// Points in time.  Each clock has its own type, so a time cannot be compared with one of another clock or be mistaken
// for it.  Only readings of both clocks taken together convert one into the other (capture::Clocks).
#pragma once

#include <compare>
#include <cstdint>
#include <ctime>

namespace incident::capture {

template <clockid_t Clock> struct Instant {
    std::uint64_t ns = 0;
    static Instant now() {
        timespec time{};
        ::clock_gettime(Clock, &time);
        return {static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec)};
    }
    auto operator<=>(const Instant &) const = default;
    // Computed modulo 2^64, so hostile times give wrong dates and do no other harm.
    Instant operator+(std::uint64_t duration_ns) const { return {ns + duration_ns}; }
    Instant operator-(std::uint64_t duration_ns) const { return {ns - duration_ns}; }
};

using MonotonicTime = Instant<CLOCK_MONOTONIC>; // bpf_ktime_get_ns(), what events say; stands still in suspend
using BootTime = Instant<CLOCK_BOOTTIME>;       // starts of processes and threads; goes on in suspend
using WallTime = Instant<CLOCK_REALTIME>;       // since 1970; may be set
using RawTime = Instant<CLOCK_MONOTONIC_RAW>;   // what ZFS says (gethrtime()); not corrected by NTP as MonotonicTime is

} // namespace incident::capture
