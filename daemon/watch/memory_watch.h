// Resident memory of watched processes, sampled while a "memory" rule is loaded.  Sampled,
// because the kernel's own tracepoint of it (kmem:rss_stat) fires on every page.
#pragma once

#include "daemon/facts/facts_cache.h"
#include "daemon/facts/occurrence.h"
#include "daemon/record/recorder.h"

#include <deque>
#include <functional>
#include <unordered_map>

namespace incident::daemon {

class MemoryWatch {
public:
    explicit MemoryWatch(capture::OsRoots os) : os_(std::move(os)) {}

    // How often the loaded rules want samples; 0: none does.
    void set_rules(std::span<const rules::Rule> rules);
    std::uint64_t interval_ns() const { return interval_ns_; }

    // One sample of each process the recorder knows and some memory rule is about.
    void sample(const Recorder &recorder, FactsCache &facts, std::span<const rules::Rule> rules, std::uint64_t now_ns,
                const std::function<void(Occurrence)> &on_sample);

private:
    static constexpr std::size_t most_samples = 128; // kept of a process, for the bundle

    struct Known {
        std::uint64_t start_boot_ns = 0;
        std::uint32_t execs = 0, uid = 0;
        std::deque<std::pair<std::uint64_t, std::uint64_t>> samples; // t_ns, bytes
        bool wanted = false, seen = false;
    };

    capture::OsRoots os_;
    std::uint64_t interval_ns_ = 0;
    std::unordered_map<std::uint32_t, Known> known_;
};

} // namespace incident::daemon
