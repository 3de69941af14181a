// Samples the resident memory of watched processes while a "memory" rule is loaded.  It samples because the kernel's
// tracepoint for it (kmem:rss_stat) fires on every page.
#pragma once

#include "daemon/watch/watch.h"

#include <deque>
#include <unordered_map>

namespace incident::daemon {

class MemoryWatch : public Watch {
public:
    using Watch::Watch;

    void apply(std::uint64_t now_ns) override;
    // Takes one sample of each process that the recorder knows and a memory rule is about.
    std::uint64_t poll(std::uint64_t now_ns) override;
    void add_context(const FiredIncident &incident) const override;

private:
    static constexpr std::size_t most_samples = 128; // kept of each process, for the bundle

    struct Known {
        capture::ProcessRef process;
        std::uint32_t execs = 0, uid = 0;
        std::deque<std::pair<std::uint64_t, std::uint64_t>> samples; // t_ns, bytes
        bool wanted = false, seen = false;
    };

    std::uint64_t interval_ns_ = 0; // how often the rules want samples; 0: no rule wants any
    std::unordered_map<std::uint32_t, Known> known_;
};

} // namespace incident::daemon
