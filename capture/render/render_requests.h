// The requests of io_uring of a snapshot, those that are over and those in flight.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <cstdint>
#include <vector>

namespace incident::capture {

struct ShownRequest {
    const Request *request = nullptr; // of the snapshot
    std::uint32_t tid = 0;            // who submitted it; who completed it, where that is not known
    std::uint32_t completed_by = 0;   // another thread, of io_uring's own; 0: none
    bool in_flight = false;           // when the snapshot was taken
    bool in_doubt = false;            // it may have ended: completions have found their queue full
};

// By when they were submitted.
std::vector<ShownRequest> requests_of(const ProcessSnapshot &process);

// Whether it had been submitted by then (monotonic) and was not completed.
bool was_pending(const ShownRequest &shown, std::uint64_t t_ns);

} // namespace incident::capture
