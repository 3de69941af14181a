// The kernel's tracepoints as tracefs describes them.
#pragma once

#include "rules/filter/filter.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::daemon {

// Whether it can be read; mounts it where nobody has.
bool tracefs_is_there();

// The text of events/CATEGORY/NAME/format; nullopt: there is none, or tracefs is not to be had.
std::optional<std::string> tracepoint_format(const std::string &category, const std::string &name);

// The number by which the kernel knows it ("ID:" in its format); another after its module was loaded anew.
std::optional<std::uint32_t> tracepoint_number(const std::string &category, const std::string &name);

// The format, understood; kept from the first time on (a tracepoint's format does not change
// while its module is loaded).  nullptr as above.
const rules::TracepointFormat *parsed_format(const std::string &category, const std::string &name);

// The tracepoints of a category, or, for "", the categories; sorted.
std::vector<std::string> tracepoint_names(const std::string &category);

// Bytes of a record worth copying: its fixed part, and room for texts behind it where it has
// such; at most TRACEPOINT_RECORD_MAX.  0: no such tracepoint.
std::uint32_t tracepoint_record_length(const std::string &category, const std::string &name);

} // namespace incident::daemon
