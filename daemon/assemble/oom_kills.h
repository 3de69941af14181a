// OOM kills, told apart from other SIGKILLs.  The kernel sends SIGKILL first and names its
// victim afterwards, so a victim's death and the choice arrive in either order; what only
// this instant can tell (the cgroup's files, the kernel's own line) is read when the choice
// arrives.
#pragma once

#include "bpf/event.h"
#include "capture/collect/collect.h"
#include "capture/collect/trigger.h"

#include <deque>
#include <optional>
#include <string>

namespace incident::daemon {

struct OomKill {
    std::uint32_t tgid = 0; // of the victim
    std::uint64_t t_ns = 0;
    std::string proc_cgroup; // its /proc/PID/cgroup; "" where it was gone
    capture::OomTrigger trigger;
    capture::Collected before; // cgroup_before/…
    bool cgroup = false;       // a memory cgroup's limit, not the host's
};

class OomKills {
public:
    explicit OomKills(capture::OsRoots os) : os_(std::move(os)) {}

    // victim: the tgid behind oom_event.victim, which may be that of one of its threads.
    const OomKill &note(const bpf::oom_event &event, std::uint32_t victim);
    // The kill of that process, taken out; nullopt: none was seen.
    std::optional<OomKill> take(std::uint32_t tgid);
    // When the victim is gone: cgroup_after/…, and what the log says by now.
    void finish(OomKill &kill, capture::Collected &into) const;

private:
    static constexpr std::size_t most = 64;                          // kills whose death has not been seen
    static constexpr std::uint64_t lasts_ns = 60ull * 1'000'000'000; // after that the pid may be another's

    capture::OsRoots os_;
    std::deque<OomKill> kills_;
};

} // namespace incident::daemon
