// How often tracepoints are hit, counted for a short while: all rules about tracepoints share one
// program, whose run time alone does not say which of them is the hot one.
//
// An empty program at each, whose runs the kernel counts while run times are counted.  Not a perf
// counter: perf sees no hit of a tracepoint at which a program returns 0 (kernel/events/core.c,
// perf_trace_run_bpf_submit).
#pragma once

#include "capture/unique_fd.h"

#include <cstdint>
#include <map>
#include <string>

namespace incident::daemon {

class TracepointCounts {
public:
    // Counts from now on; one that cannot be counted has no hits.
    void begin(const std::string &category, const std::string &name);
    std::uint64_t hits(const std::string &category, const std::string &name) const;
    void end() { counters_.clear(); }

private:
    struct Counter {
        UniqueFd program, event; // the event, which holds the program at the tracepoint, goes first
    };
    std::map<std::string, Counter> counters_; // by "CATEGORY:NAME"
};

} // namespace incident::daemon
