// Allocations that were freed twice, as the history has it.
#pragma once

#include "postmortem/heap/lives.h"

#include <optional>

namespace incident::postmortem {

// The allocation whose second free is the last one before t_ns: an address freed of which nothing was known, freed
// before, and with no allocation recorded there in between.
std::optional<Life> last_double_free(const Heap &heap, std::uint64_t t_ns);

} // namespace incident::postmortem
