// The kernel's clocks, read where the daemon needs "now".
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

// The time of day then, in UTC: "03:14:05Z".
std::string time_text(std::uint64_t monotonic_ns);

// What time it is; a test has its own.
class Clock {
public:
    virtual ~Clock() = default;
    virtual std::uint64_t monotonic_ns() const { return clock_ns(CLOCK_MONOTONIC); }
    // The three clocks together; boot_id is the caller's.
    virtual capture::Clocks read(std::string boot_id) const {
        return {
            {clock_ns(CLOCK_MONOTONIC)}, {clock_ns(CLOCK_BOOTTIME)}, {clock_ns(CLOCK_REALTIME)}, std::move(boot_id)};
    }
};

} // namespace incident::daemon
