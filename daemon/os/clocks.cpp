#include "daemon/os/clocks.h"

#include <fmt/chrono.h>

namespace incident::daemon {

std::string time_text(std::uint64_t monotonic_ns) {
    const auto offset =
        static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME)) - static_cast<std::int64_t>(clock_ns(CLOCK_MONOTONIC));
    const auto seconds = (static_cast<std::int64_t>(monotonic_ns) + offset) / 1'000'000'000;
    return fmt::format("{:%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

} // namespace incident::daemon
