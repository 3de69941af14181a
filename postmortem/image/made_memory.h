// Bytes for an address that were made, not captured.
#pragma once

#include <cstdint>
#include <string>

namespace incident::postmortem {

struct MadeMemory {
    std::uint64_t address = 0;
    std::string bytes;
};

} // namespace incident::postmortem
