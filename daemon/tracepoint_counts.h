// How often tracepoints are hit, counted for a short while: all rules about tracepoints share one
// program, whose run time alone does not say which of them is the hot one.
#pragma once

#include "capture/unique_fd.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace incident::daemon {

class TracepointCounts {
public:
    // Counts from now on, on every CPU; one that cannot be counted has no hits.
    void begin(const std::string &category, const std::string &name);
    std::uint64_t hits(const std::string &category, const std::string &name) const;
    void end() { counters_.clear(); }

private:
    std::map<std::string, std::vector<UniqueFd>> counters_; // by "CATEGORY:NAME", one a CPU
};

} // namespace incident::daemon
