// Fetches files by build-id from debuginfod servers.
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
    bool executable = false; // true: the file itself; false: its debug information
};

struct Fetched {
    std::size_t module = 0;
    bool executable = false;
    UniqueFd file; // in the client's cache; the caller must check its build-id
};

// Asks the servers of $DEBUGINFOD_URLS for all of these within `time`, in a capped child. `notes` gets what could not
// be fetched, and why.
std::vector<Fetched> fetch_by_build_id(const std::vector<Wanted> &wanted, std::chrono::milliseconds time,
                                       std::uint64_t memory_bytes, std::vector<std::string> &notes);

} // namespace incident::postmortem
