// Reads what tracefs says of the kernel's tracepoints.
#pragma once

#include "rules/filter/filter.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::daemon {

// Whether tracefs can be read.  Mounts it if nobody has.
bool tracefs_is_there();

// The text of events/CATEGORY/NAME/format; nullopt: there is no such tracepoint, or no tracefs.
std::optional<std::string> tracepoint_format(const std::string &category, const std::string &name);

// The number by which the kernel knows the tracepoint ("ID:" in its format).  It changes when the module is loaded
// again.
std::optional<std::uint32_t> tracepoint_number(const std::string &category, const std::string &name);

// The parsed format; nullptr as above.  It is kept after the first call, because the format of a tracepoint does not
// change while its module is loaded.
const rules::TracepointFormat *parsed_format(const std::string &category, const std::string &name);

// The sorted names of the tracepoints of a category, or of the categories themselves if it is "".
std::vector<std::string> tracepoint_names(const std::string &category);

// How many bytes of a record are copied: its fixed part, and room for the texts behind it if it has any; at most
// TRACEPOINT_RECORD_MAX.  0: there is no such tracepoint.
std::uint32_t tracepoint_record_length(const std::string &category, const std::string &name);

} // namespace incident::daemon
