// Finds out from the timeline when an address was mapped and unmapped.
#pragma once

#include "postmortem/verdict/evidence.h"

namespace incident::postmortem {

struct Munmap {
    std::string fact;        // who called it, for which range, when
    bool was_mapped = false; // a recorded mmap(2) had mapped it, and no recorded call had moved it since
};

// The last munmap(2) of the address before the incident; not set if none was recorded. munmap(2) succeeds even if
// nothing was mapped there.
std::optional<Munmap> munmap_of(const Evidence &evidence, std::uint64_t address);

} // namespace incident::postmortem
