// Files by build-id from debuginfod servers.
#pragma once

#include "capture/os/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace incident::postmortem {

struct Wanted {
    std::size_t module = 0;
    std::string build_id;    // hex
    bool executable = false; // the file itself; else its debug information
};

struct Fetched {
    std::size_t module = 0;
    bool executable = false;
    UniqueFd file; // in the client's cache; its build-id is still to be checked
};

// Asks the servers of $DEBUGINFOD_URLS, in a capped child, for all of these within `time`.  notes: what
// could not be had and why.
std::vector<Fetched> fetch_by_build_id(const std::vector<Wanted> &wanted, std::chrono::milliseconds time,
                                       std::uint64_t memory_bytes, std::vector<std::string> &notes);

} // namespace incident::postmortem
