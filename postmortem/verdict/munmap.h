// What the timeline has of an address's mapping and unmapping.
#pragma once

#include "postmortem/verdict/evidence.h"

namespace incident::postmortem {

struct Munmap {
    std::string fact;        // who called it, of what, when
    bool was_mapped = false; // something was: by a recorded mmap(2) that nothing recorded has moved away since
};

// The last munmap(2) of the address before the incident; nothing: none was recorded.  It succeeds as well where
// nothing was mapped.
std::optional<Munmap> munmap_of(const Evidence &evidence, std::uint64_t address);

} // namespace incident::postmortem
