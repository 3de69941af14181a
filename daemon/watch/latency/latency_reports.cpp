// Reports the state of probes, and which rules they serve.
#include "daemon/watch/latency/latency_probes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace incident::daemon {

namespace {

bpf::probe_count operator-(bpf::probe_count a, const bpf::probe_count &b) {
    a.calls -= b.calls;
    a.missed -= b.missed;
    a.left -= b.left;
    a.uncertain -= b.uncertain;
    a.overflow -= b.overflow;
    a.unmatched -= b.unmatched;
    a.unrecorded -= b.unrecorded;
    a.unsent -= b.unsent;
    return a;
}

} // namespace

std::vector<const WantedProbe *> LatencyProbes::users(std::uint32_t index) const {
    std::vector<const WantedProbe *> users;
    for (const auto &probe : probes_)
        if (probe->index == index)
            for (const auto user : probe->users)
                users.push_back(&wanted_[user]);
    return users;
}

ProbeReport LatencyProbes::report(const Probe &probe, const WantedProbe &wanted) const {
    using State = ProbeReport::State;
    ProbeReport report{.rule = wanted.rule, .condition = wanted.condition};
    report.count = kernel_.probe_count(probe.index) - probe.base;
    report.count.uncertain += scanner_.doubted(probe.index).calls;
    report.calls_per_second = probe.rate;
    std::string warning, note;
    for (std::size_t i = 0; i < probe.ends.size(); ++i) {
        if (!probe.ends[i].found()) {
            report.reason = probe.problem[i];
            return report;
        }
        // of the file that stands there now; older ones are still probed
        for (const auto &text : {probe.problem[i], probe.ends[i].warning()})
            if (!text.empty())
                warning += (warning.empty() ? "" : "; ") + text;
        if (const std::string text = probe.ends[i].note(); !text.empty())
            note += (note.empty() ? "" : "; ") + text;
    }
    const bool keyed = std::ranges::any_of(probe.ends, &ProbeEnd::keyed);
    if (keyed && wanted.when == rules::When::Deadline) {
        report.reason = fmt::format("calls of a program {} are told when they return: that one is still running cannot "
                                    "be proven from outside; use when = \"return\"",
                                    probe.ends.front().in_go() ? "in Go" : "that switches stacks");
        return report;
    }
    if (probe.ends.size() > 1 && probe.ends[0].in_go() != probe.ends[1].in_go()) {
        report.reason = "one end is in a Go program and the other is not: no goroutine is common to both";
        return report;
    }
    if (probe.held) { // State::Unavailable: what is detached does nothing
        report.reason = "detached: over the cost budget";
        return report;
    }
    if (probe.off_until_ns) {
        report.reason = fmt::format("detached: {} calls/s is above max_rate = {}", probe.off_rate, probe.max_rate);
        report.off_since_ns = probe.off_since_ns;
        report.off_until_ns = probe.off_until_ns;
        return report;
    }
    report.state = State::Degraded;
    if (!probe.refused.empty()) {
        if (!std::ranges::all_of(probe.ends, &ProbeEnd::attached))
            report.state = State::Unavailable;
        report.reason = probe.refused;
        return report;
    }
    report.reason = warning;
    if (warning.empty()) {
        report.state = State::Active;
        if (probe.everywhere && !probe.everyone)
            report.reason = fmt::format("more than {} processes match: probed in every process", processes_max);
        else if (!probe.everywhere && probe.processes.empty())
            report.reason = "no process matches now";
    }
    if (!note.empty())
        report.reason += (report.reason.empty() ? "" : "; ") + note;
    if (const std::string more = remarks(probe, report.count); !more.empty())
        report.reason += (report.reason.empty() ? "" : "; ") + more;
    return report;
}

// Calls that there is no time of, and why.
std::string LatencyProbes::remarks(const Probe &probe, const bpf::probe_count &count) const {
    std::vector<std::string> parts;
    if (count.left)
        parts.push_back(fmt::format("{} calls were left by an exception or longjmp: not timed", count.left));
    if (count.missed > count.left)
        parts.push_back(
            fmt::format("{} calls ended without a return that was seen: not timed", count.missed - count.left));
    if (count.uncertain) {
        const auto doubted = scanner_.doubted(probe.index);
        parts.push_back(fmt::format("{} calls could not be proven to take so long: not told{}", count.uncertain,
                                    doubted.why.empty() ? "" : " (last: " + doubted.why + ")"));
    }
    if (exits_off_until_ns_ && follows_exits(probe))
        parts.push_back(fmt::format("{} exceptions and longjmps a second are too many to be followed: no call is told "
                                    "as still running",
                                    exits_off_rate_));
    return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<ProbeReport> LatencyProbes::reports() const {
    std::vector<ProbeReport> reports;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
        const auto found =
            std::ranges::find_if(probes_, [&](const auto &probe) { return std::ranges::count(probe->users, i) > 0; });
        if (found != probes_.end()) {
            reports.push_back(report(**found, wanted_[i]));
            continue;
        }
        reports.push_back({.rule = wanted_[i].rule, .condition = wanted_[i].condition});
        reports.back().reason = fmt::format("more than {} different probes", PROBES_MAX);
    }
    return reports;
}

} // namespace incident::daemon
