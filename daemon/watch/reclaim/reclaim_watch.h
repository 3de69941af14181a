// Remembers which threads have waited for memory lately, and what the memory of the host was like before.  This is the
// context of an incident of a reclaim rule.
#pragma once

#include "daemon/watch/watch.h"

#include <map>

namespace incident::daemon {

class ReclaimWatch : public Watch {
public:
    using Watch::Watch;

    void apply(std::uint64_t now_ns) override;
    // Notes each wait.  The first wait after a quiet window reads the state of the host.
    void before_rules(Occurrence &occurrence) override;
    // Adds the threads that have waited longest, and host/before/… .
    void add_context(const FiredIncident &incident) const override;

private:
    static constexpr std::size_t most_threads = 4096, shown = 16;

    // The waits since `since_ns`.  A bucket lasts one window, and two buckets are kept.
    struct Bucket {
        std::uint64_t since_ns = 0, last_ns = 0;
        std::map<std::uint32_t, capture::Stalled> threads;
        std::map<std::string, std::string> host; // as read when it began
        std::uint64_t host_ns = 0;
    };
    void begin(std::uint64_t t_ns);
    void note(const bpf::reclaim_trigger &event, const rules::ProcessFacts &process, const std::string &comm);
    void describe(capture::ReclaimTrigger &trigger, capture::Collected &into) const;

    std::uint64_t window_ns_ = 0; // the longest that a reclaim rule looks over
    Bucket now_, before_;
};

} // namespace incident::daemon
