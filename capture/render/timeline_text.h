// One line of a bundle's timeline.jsonl as strace would print it, for a terminal:
//   -1.203 ms  openat(AT_FDCWD, "/etc/x", O_RDONLY) = 3 <12 µs>
// Shared by summary.txt (capture/) and `incidentctl timeline` (postmortem/).
#pragma once

#include <cstdint>
#include <string>

namespace simdjson::dom {
class element;
}

namespace incident::capture {

// reference_ns: the monotonic time (t_ns of the lines) that counts as 0, as a rule the
// trigger's.  Never throws, whatever the line holds: a bundle may come from elsewhere.  The
// result is one line of printable UTF-8: control characters are escaped.
std::string timeline_text(simdjson::dom::element line, std::int64_t reference_ns);

// "-1.203 ms": 4 significant digits, sign always shown, right-aligned to 12 columns.
std::string relative_time(std::int64_t ns);
// "12.3 µs", "870 ns"
std::string duration_text(std::int64_t ns);

} // namespace incident::capture
