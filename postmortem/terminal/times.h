// Reads and writes times in the forms that people use.
#pragma once

#include "capture/os/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace incident::postmortem {

// "250ms", "30s", "5m", "2h", "1h30m", "1d"; a bare number is seconds.  Negative with a leading '-'.
Result<std::int64_t> parse_duration(std::string_view text);

// Reads a time in the past, as realtime nanoseconds: a duration before now ("2h", "-2h", "2h ago"), "@SECONDS",
// "today", "yesterday", "2026-11-21", "2026-11-21 15:04[:05]", "15:04[:05]" of today; local time.
Result<std::int64_t> parse_time(std::string_view text, std::int64_t now_ns);

// "20261121T150405.123Z", the beginning of bundle names.
std::optional<std::int64_t> parse_name_time(std::string_view text);
// "2026-11-21T15:04:05.123456789Z", also with an offset such as +01:00.
std::optional<std::int64_t> parse_iso_time(std::string_view text);

// "2026-11-21 16:04:05" in local time.
std::string local_time(std::int64_t realtime_ns);
// "2h 5m", "3.2 s": a span for reading, not for computing.
std::string span_text(std::uint64_t ns);
// "1.4 MiB"
std::string size_text(std::uint64_t bytes);
std::int64_t now_realtime_ns();

} // namespace incident::postmortem
