// Tells OOM kills from other SIGKILLs.  The kernel sends SIGKILL first and names its victim afterwards, so the death
// and the event that names the victim arrive in either order.  The files of the cgroup and the kernel's own log line
// change soon, so they are read as soon as the victim is named.
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
    std::uint32_t user = 0;
    std::uint64_t t_ns = 0;
    std::string proc_cgroup; // the text of its /proc/PID/cgroup; "" if the process was gone
    capture::OomTrigger trigger;
    capture::Collected before; // cgroup_before/…
    bool cgroup = false;       // a memory cgroup was at its limit, not the host
};

class OomKills {
public:
    explicit OomKills(capture::OsRoots os) : os_(std::move(os)) {}

    // Remembers the kill.  victim: the process's id; oom_event.victim may be the id of one of its threads.  user: whose
    // it is, rules::user_of().  If too many are remembered, the oldest of the user who has most is forgotten.
    const OomKill &note(const bpf::oom_event &event, std::uint32_t victim, std::uint32_t user);
    // Returns the kill of this process and forgets it; nullopt: none was seen.
    std::optional<OomKill> take(std::uint32_t tgid);
    // Call it when the victim is gone: adds cgroup_after/… and what the kernel log says by now.
    void finish(OomKill &kill, capture::Collected &into) const;

    static constexpr std::size_t most = 64; // kills whose death has not been seen

private:
    void forget_one();
    static constexpr std::uint64_t lasts_ns = 60ull * 1'000'000'000; // later the pid may belong to another process

    capture::OsRoots os_;
    std::deque<OomKill> kills_;
};

} // namespace incident::daemon
