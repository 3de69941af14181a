// Who has been waiting for memory lately, and what the host's memory looked like before:
// the context of a reclaim rule's incident.
#pragma once

#include "bpf/event.h"
#include "capture/collect/collect.h"
#include "capture/collect/trigger.h"
#include "rules/model/rule.h"

#include <map>

namespace incident::daemon {

class ReclaimWatch {
public:
    explicit ReclaimWatch(capture::OsRoots os) : os_(std::move(os)) {}

    // The longest window any reclaim rule looks over.
    void set_window(rules::Nanoseconds window) { window_ns_ = static_cast<std::uint64_t>(window.count()); }
    // Each wait, before the rules are asked.  The first one after a quiet window reads the host's state.
    void note(const bpf::reclaim_trigger &event, const rules::ProcessFacts &process, const std::string &comm);
    // Fills in the most stalled threads, and host/before/… .
    void describe(capture::ReclaimTrigger &trigger, capture::Collected &into) const;

private:
    static constexpr std::size_t most_threads = 4096, shown = 16;

    // Waits since `since_ns`; a bucket lasts one window, and two are kept.
    struct Bucket {
        std::uint64_t since_ns = 0, last_ns = 0;
        std::map<std::uint32_t, capture::Stalled> threads;
        std::map<std::string, std::string> host; // as read when it began
        std::uint64_t host_ns = 0;
    };
    void begin(std::uint64_t t_ns);

    capture::OsRoots os_;
    std::uint64_t window_ns_ = 30ull * 1'000'000'000;
    Bucket now_, before_;
};

} // namespace incident::daemon
