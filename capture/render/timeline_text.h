// Prints one line of a bundle's timeline.jsonl for a terminal, as strace would:
//   -1.203 ms  openat(AT_FDCWD, "/etc/x", O_RDONLY) = 3 <12 µs>
// Shared by summary.txt (capture/) and `incidentctl timeline` (postmortem/).
#pragma once

#include <cstdint>
#include <string>

namespace simdjson::dom {
class element;
}

namespace incident::capture {

// reference_ns: the monotonic time (t_ns of the lines) that counts as 0, usually that of the trigger.  It never throws,
// whatever the line holds, because a bundle may come from elsewhere.  The result is one line of printable UTF-8 with
// control characters escaped.
std::string timeline_text(simdjson::dom::element line, std::int64_t reference_ns);

// "-1.203 ms": 4 significant digits, sign always shown, right-aligned to 12 columns.
std::string relative_time(std::int64_t ns);
// "12.3 µs", "870 ns"
std::string duration_text(std::int64_t ns);

} // namespace incident::capture
