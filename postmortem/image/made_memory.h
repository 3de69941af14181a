// Bytes that stand at an address though nobody read them there.
#pragma once

#include <cstdint>
#include <string>

namespace incident::postmortem {

struct MadeMemory {
    std::uint64_t address = 0;
    std::string bytes;
};

} // namespace incident::postmortem
