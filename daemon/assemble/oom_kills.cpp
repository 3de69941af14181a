#include "daemon/assemble/oom_kills.h"

#include "capture/collect/collect_oom.h"

#include <algorithm>
#include <map>

namespace incident::daemon {

namespace {

constexpr std::chrono::seconds log_span{20};

// Where the kernel's line did not come (it is rate-limited): whose limit is used up?
bool limit_is_reached(const capture::Collected &files) {
    for (const auto &[path, bytes] : files.files)
        if (path.ends_with("/memory.events.local") || path.ends_with("/memory.events"))
            return bytes.find("oom_kill 0") == std::string::npos && bytes.find("oom_kill ") != std::string::npos;
    return false;
}

// The cgroup whose limit was reached, as lines of /proc/PID/cgroup.  By the kernel's own word: a victim that is
// already exiting stands in the root of a v1 hierarchy, and one that is gone nowhere.
std::string lines_of(const std::string &memcg, const std::string &proc_cgroup) {
    const std::string v1 = "1:memory:" + memcg + "\n", v2 = "0::" + memcg + "\n";
    if (proc_cgroup.empty())
        return v1 + v2;
    return proc_cgroup.find(":memory:") != std::string::npos ? v1 : v2;
}

} // namespace

void OomKills::forget_one() {
    std::map<std::uint32_t, std::size_t> kills;
    for (const OomKill &kill : kills_)
        ++kills[kill.user];
    const auto count = [](const auto &one) { return one.second; };
    const auto most = std::ranges::max_element(kills.rbegin(), kills.rend(), {}, count); // root's as the last
    kills_.erase(std::ranges::find(kills_, most->first, &OomKill::user));
}

const OomKill &OomKills::note(const bpf::oom_event &event, std::uint32_t victim, std::uint32_t user) {
    OomKill kill;
    kill.tgid = victim;
    kill.user = user;
    kill.t_ns = event.h.t_ns;
    kill.trigger.event = event;
    kill.trigger.event->kernel_frames = std::min<__u32>(event.kernel_frames, KERNEL_FRAMES);
    kill.trigger.event->cgroup_parts = std::min<__u32>(event.cgroup_parts, CGROUP_PARTS);
    kill.proc_cgroup = capture::cgroup_of_process(os_, victim);
    capture::read_oom_log(capture::recent_kernel_log(os_, log_span), victim, kill.trigger);
    if (kill.trigger.constraint == "CONSTRAINT_MEMCG" && kill.trigger.oom_memcg.starts_with('/'))
        kill.proc_cgroup = lines_of(kill.trigger.oom_memcg, kill.proc_cgroup);
    capture::collect_cgroup_memory(os_, kill.proc_cgroup, "cgroup_before", kill.before);
    kill.cgroup =
        kill.trigger.constraint.empty() ? limit_is_reached(kill.before) : kill.trigger.constraint == "CONSTRAINT_MEMCG";
    std::erase_if(kills_, [&](const OomKill &old) { return old.tgid == victim || old.t_ns + lasts_ns < kill.t_ns; });
    if (kills_.size() >= most)
        forget_one();
    kills_.push_back(std::move(kill));
    return kills_.back();
}

std::optional<OomKill> OomKills::take(std::uint32_t tgid) {
    const auto found = std::ranges::find(kills_, tgid, &OomKill::tgid);
    if (found == kills_.end())
        return std::nullopt;
    OomKill kill = std::move(*found);
    kills_.erase(found);
    return kill;
}

void OomKills::finish(OomKill &kill, capture::Collected &into) const {
    if (kill.trigger.constraint.empty() || kill.trigger.killed.empty())
        capture::read_oom_log(capture::recent_kernel_log(os_, log_span), kill.tgid, kill.trigger);
    for (auto &[path, bytes] : kill.before.files)
        into.files[path] = std::move(bytes);
    into.results.insert(into.results.end(), kill.before.results.begin(), kill.before.results.end());
    capture::collect_cgroup_memory(os_, kill.proc_cgroup, "cgroup_after", into);
}

} // namespace incident::daemon
