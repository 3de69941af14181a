// Durations ("50us", "900ms", "5s", "2m", "1h", "1d") and sizes ("512B", "16KiB", "4MiB",
// "2GiB", "1TiB"): a whole number and a unit, nothing else.
#pragma once

#include "rules/rule.h"

#include <expected>
#include <string>
#include <string_view>

namespace incident::rules {

struct UnitError {
    std::string message; // continues "'cooldown' "
    std::string hint;
};

std::expected<Nanoseconds, UnitError> parse_duration(std::string_view text);
std::expected<std::uint64_t, UnitError> parse_size(std::string_view text);

extern const std::string duration_forms; // "durations are written …", the hint for a bare number
extern const std::string size_forms;

// In the largest unit that states the value exactly; durations round down to 1 us.
std::string duration_text(Nanoseconds value);
std::string size_text(std::uint64_t bytes);
// For people: a measured duration, from 10 ms on in whole milliseconds.
std::string about_text(Nanoseconds value);

} // namespace incident::rules
