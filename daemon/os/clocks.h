// Reads the kernel's clocks.
#pragma once

#include "capture/collect/snapshot.h"

#include <ctime>
#include <string>

namespace incident::daemon {

inline std::uint64_t clock_ns(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(now.tv_nsec);
}

// The time of day in UTC: "03:14:05Z".
std::string time_text(std::uint64_t monotonic_ns);

// Tells the time.  A test has its own clock.
class Clock {
public:
    virtual ~Clock() = default;
    virtual std::uint64_t monotonic_ns() const { return clock_ns(CLOCK_MONOTONIC); }
    // Reads the three clocks together.  The caller gives the boot_id.
    virtual capture::Clocks read(std::string boot_id) const {
        return {{clock_ns(CLOCK_MONOTONIC)},
                {clock_ns(CLOCK_BOOTTIME)},
                {clock_ns(CLOCK_REALTIME)},
                std::move(boot_id),
                {}};
    }
};

} // namespace incident::daemon
