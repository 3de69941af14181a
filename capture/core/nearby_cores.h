// Names the cores that systemd-coredump has stored of a unit's other processes shortly before an incident.
#pragma once

#include "capture/core/core_match.h"
#include "capture/journal/last_words.h"

namespace incident::capture {

struct NearbyCore {
    WallTime at; // the dump
    std::uint32_t pid = 0;
    int signal = 0;
    std::string exe, comm, file; // hostile; "" not known, or no file stored
};

struct NearbyCores {
    static constexpr std::size_t most = 32;
    std::vector<NearbyCore> cores; // oldest first; the newest of them, if there are more
    std::uint64_t more = 0;        // not named here
    std::string problem;           // why cores may be missing; "" none
};

// An entry counts by what journald attests of its sender, as for the incident's own core (core_link.h).
// instant, time: of the incident.  Its own core comes later, so it is not among them.
NearbyCores find_nearby_cores(Journal &journal, const Speaker &speaker, const CoreHandler &handler,
                              MonotonicTime instant, WallTime time, std::chrono::nanoseconds within,
                              std::chrono::milliseconds deadline = std::chrono::milliseconds(500));

} // namespace incident::capture
