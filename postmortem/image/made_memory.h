// Bytes for an address that were made, not captured.
#pragma once

#include "capture/os/address.h"

#include <string>

namespace incident::postmortem {

struct MadeMemory {
    capture::UserAddress address;
    std::string bytes;
};

} // namespace incident::postmortem
