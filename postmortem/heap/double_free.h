// Finds allocations that were freed twice according to the history.
#pragma once

#include "postmortem/heap/lives.h"

#include <optional>

namespace incident::postmortem {

// The allocation whose second free is the last one before t_ns. A second free is a free of an address that was freed
// before and was not in the table of live allocations, with no allocation recorded there in between.
std::optional<Life> last_double_free(const Heap &heap, std::uint64_t t_ns);

} // namespace incident::postmortem
