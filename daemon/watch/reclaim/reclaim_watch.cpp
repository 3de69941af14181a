#include "daemon/watch/reclaim/reclaim_watch.h"

#include "daemon/os/clocks.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace incident::daemon {

namespace {

std::string event_counters(const std::string &path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void add(capture::Stalled &to, const capture::Stalled &more) {
    if (to.tid == 0 || more.longest_ns > to.longest_ns) {
        to.kernel_stack = more.kernel_stack;
        to.longest_ns = more.longest_ns;
    }
    to.pid = more.pid;
    to.tid = more.tid;
    to.comm = more.comm;
    to.cgroup = more.cgroup;
    to.count += more.count;
    to.stalled_ns += more.stalled_ns;
    to.reclaimed_pages += more.reclaimed_pages;
}

} // namespace

void ReclaimWatch::apply(std::uint64_t) {
    rules::Nanoseconds window{std::chrono::seconds(1)};
    for (const auto &rule : context_.rules.rules())
        for (const auto &condition : rule.conditions)
            if (std::holds_alternative<rules::ReclaimCondition>(condition.what))
                window = std::max(window, condition.tally.window);
    window_ns_ = static_cast<std::uint64_t>(window.count());
}

void ReclaimWatch::before_rules(Occurrence &occurrence) {
    if (const auto *reclaim = std::get_if<capture::ReclaimTrigger>(&occurrence.trigger))
        note(reclaim->last, occurrence.event.process, occurrence.comm);
}

void ReclaimWatch::add_context(const FiredIncident &incident) const {
    if (auto *reclaim = std::get_if<capture::ReclaimTrigger>(&incident.input.trigger))
        describe(*reclaim, incident.collected);
}

void ReclaimWatch::begin(std::uint64_t t_ns) {
    const bool quiet = t_ns > now_.last_ns + window_ns_;
    before_ = quiet ? Bucket{} : std::move(now_);
    now_ = Bucket{};
    now_.since_ns = t_ns;
    for (const char *name : {"meminfo", "vmstat", "buddyinfo", "pressure/memory", "pressure/io", "pressure/cpu"})
        if (std::string text = event_counters(context_.os.proc + "/" + name); !text.empty())
            now_.host[name] = std::move(text);
    now_.host_ns = clock_ns(CLOCK_MONOTONIC);
}

void ReclaimWatch::note(const bpf::reclaim_trigger &event, const rules::ProcessFacts &process,
                        const std::string &comm) {
    const std::uint64_t t_ns = event.t.h.t_ns;
    if (now_.since_ns == 0 || t_ns > now_.since_ns + window_ns_)
        begin(t_ns);
    now_.last_ns = std::max(now_.last_ns, t_ns);
    const auto found = now_.threads.find(event.t.h.tid);
    if (found == now_.threads.end() && now_.threads.size() >= most_threads)
        return; // counted by the rule all the same; only not among those shown
    const std::size_t frames = std::min<std::size_t>(event.kernel_frames, KERNEL_FRAMES);
    add(now_.threads[event.t.h.tid], {event.t.h.tgid,
                                      event.t.h.tid,
                                      comm,
                                      process.cgroup,
                                      1,
                                      event.duration_ns,
                                      event.duration_ns,
                                      event.reclaimed,
                                      {event.kernel_stack, event.kernel_stack + frames}});
}

void ReclaimWatch::describe(capture::ReclaimTrigger &trigger, capture::Collected &into) const {
    std::map<std::uint32_t, capture::Stalled> all = before_.threads;
    for (const auto &[tid, thread] : now_.threads)
        add(all[tid], thread);
    trigger.threads = all.size();
    for (auto &[tid, thread] : all)
        trigger.top.push_back(std::move(thread));
    std::ranges::sort(trigger.top, [](const auto &a, const auto &b) { return a.stalled_ns > b.stalled_ns; });
    if (trigger.top.size() > shown)
        trigger.top.resize(shown);
    const Bucket &first = before_.host.empty() ? now_ : before_;
    trigger.before_ns = first.host_ns;
    for (const auto &[name, text] : first.host)
        into.files["host/before/" + name] = text;
}

} // namespace incident::daemon
