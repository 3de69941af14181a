// Keeps all bundles together within a budget: their count, their bytes, and what must stay free on the disk.
#pragma once

#include "capture/bundle/bundle.h"

#include <cstdint>
#include <map>
#include <string>

namespace incident::daemon {

struct Budget {
    std::uint64_t bundles, bytes, keep_free;
};

class Retention {
public:
    explicit Retention(Budget budget) : budget_(budget) {}
    // Removes the oldest bundles until the budget holds, but never `keep`, the newest.
    Status keep_within(capture::IncidentsDir &directory, const std::string &keep);

    bool empty(const capture::IncidentsDir &directory) const; // there is nothing to remove

    // Whether less is free already than must stay free, so that each new bundle would replace the one before.
    bool short_of_space(const capture::IncidentsDir &directory) const;

private:
    Budget budget_;
    std::map<std::string, std::uint64_t> sizes_; // remembered, because the size of a bundle hardly changes
};

} // namespace incident::daemon
