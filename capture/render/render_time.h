// Turns recorded times into wall-clock text.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::capture {

// "2026-11-21T15:04:05.123456789Z".  It remembers the last second, because neighbours in a timeline share it.
class WallClock {
public:
    explicit WallClock(const Clocks &clocks) : clocks_(clocks) {}
    // Valid until the next call.
    std::string_view of(MonotonicTime t) { return text(clocks_.shown_at(t)); }
    std::string_view text(WallTime time);

private:
    Clocks clocks_;
    std::uint64_t second_ = ~0ull;
    char text_[40] = {};
    std::size_t length_ = 0; // the length up to the decimal point
};

std::string wall_text(WallTime time);

} // namespace incident::capture
