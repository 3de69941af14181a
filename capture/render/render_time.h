// Recorded times to wall-clock text.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::capture {

// wall = t + (realtime - monotonic), see Clocks.  Modulo 2^64: hostile times give odd dates, no more.
inline std::uint64_t wall_of_monotonic(const Clocks &clocks, std::uint64_t t_ns) {
    return t_ns + (clocks.realtime_ns - clocks.monotonic_ns);
}
inline std::uint64_t wall_of_boottime(const Clocks &clocks, std::uint64_t t_ns) {
    return t_ns + (clocks.realtime_ns - clocks.boottime_ns);
}

// "2026-11-21T15:04:05.123456789Z".  Remembers the last second: neighbours in a timeline share it.
class WallClock {
public:
    explicit WallClock(const Clocks &clocks) : clocks_(clocks) {}
    // Holds until the next call.
    std::string_view of_monotonic(std::uint64_t t_ns) { return text(wall_of_monotonic(clocks_, t_ns)); }
    std::string_view text(std::uint64_t realtime_ns);

private:
    Clocks clocks_;
    std::uint64_t second_ = ~0ull;
    char text_[40] = {};
    std::size_t length_ = 0; // of the part up to the point
};

std::string wall_text(std::uint64_t realtime_ns);

} // namespace incident::capture
