// Durations ("50us", "900ms", "5s", "2m", "1h", "1d") and sizes ("512B", "16KiB", "4MiB",
// "2GiB", "1TiB"): a whole number and a unit, nothing else.  Shares ("1%", "0.05%").
#pragma once

#include "rules/model/rule.h"

#include <expected>
#include <string>
#include <string_view>

namespace incident::rules {

struct UnitError {
    std::string message; // the text that follows "'cooldown' "
    std::string hint;
};

std::expected<Nanoseconds, UnitError> parse_duration(std::string_view text);
std::expected<std::uint64_t, UnitError> parse_size(std::string_view text);

// "1%", "0.05%": a decimal number above 0, up to 100, as a share: 0.01, 0.0005.  The error is
// the text that follows "'budget' ".
std::expected<double, std::string> parse_percent(std::string_view text);

extern const std::string duration_forms; // "durations are written …", the hint for a bare number
extern const std::string size_forms;
extern const std::string percent_forms;

// Writes a value in the largest unit that is exact; durations are rounded down to 1 us.
std::string duration_text(Nanoseconds value);
std::string size_text(std::uint64_t bytes);
// A measured duration for people; from 10 ms on in whole milliseconds.
std::string about_text(Nanoseconds value);

} // namespace incident::rules
