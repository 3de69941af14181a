// Measures what latency probes cost, and detaches those the governor names.
#include "daemon/cost/cost_loads.h"
#include "daemon/watch/latency/latency_watch.h"

#include <algorithm>

namespace incident::daemon {

namespace {

constexpr std::string_view latency_prefix = "latency:"; // of the keys in a CostMeasurement

std::vector<std::string> conditions_of_load(const LatencyProbes::Load &load) {
    std::vector<std::string> conditions;
    conditions.reserve(load.users.size());
    for (const WantedProbe *user : load.users)
        conditions.push_back(condition_key(user->rule, user->condition));
    return conditions;
}

} // namespace

void LatencyWatch::begin_measurement() {
    calls_before_.clear();
    for (const auto &load : probes_.loads())
        calls_before_[load.key] = load.calls;
}

// What the programs of functions, and those of pairs, took is theirs by their calls; the kernel's traps come on top.
void LatencyWatch::end_measurement(const CostMeter &meter, double seconds, CostMeasurement &measured) const {
    const auto share_of = [&](std::initializer_list<const char *> programs) {
        double share = 0;
        for (const char *program : programs)
            share += meter.of_program(program).cpu_share;
        return share;
    };
    const double functions =
                     share_of({"enter_call", "leave_call", "enter_keyed", "leave_keyed", "unwind_lands", "long_jump"}),
                 pairs = share_of({"enter_pair", "leave_pair"});
    const auto loads = probes_.loads();
    const auto is_pair = [](const LatencyProbes::Load &load) { return load.users.front()->leave.has_value(); };
    const auto calls_of = [&](const LatencyProbes::Load &load) {
        const auto before = calls_before_.find(load.key);
        return before == calls_before_.end() ? 0.0
                                             : static_cast<double>(load.calls - std::min(load.calls, before->second));
    };
    double calls[2] = {};
    for (const auto &load : loads)
        if (!load.users.empty())
            calls[is_pair(load)] += calls_of(load);
    for (const auto &load : loads) {
        if (load.users.empty())
            continue;
        const bool pair = is_pair(load);
        CostMeasurement::Probes line{.key = std::string(latency_prefix) + load.key,
                                     .name = load.users.front()->enter.text,
                                     .conditions = conditions_of_load(load),
                                     .attached = load.attached};
        line.asked = asked_by(line.conditions, context_.rules.rules());
        if (calls[pair] > 0) {
            line.share = (pair ? pairs : functions) * calls_of(load) / calls[pair];
            line.calls_per_second = calls_of(load) / seconds;
            const double traps = line.calls_per_second * static_cast<double>(load.trap_ns) / 1e9;
            line.share += traps;
            measured.programs += traps;
        }
        measured.probes.push_back(std::move(line));
    }
}

std::optional<std::vector<std::string>> LatencyWatch::conditions_of(std::string_view probes) const {
    if (!probes.starts_with(latency_prefix))
        return std::nullopt;
    const auto loads = probes_.loads();
    const auto load = std::ranges::find(loads, probes.substr(latency_prefix.size()), &LatencyProbes::Load::key);
    return load == loads.end() ? std::vector<std::string>() : conditions_of_load(*load);
}

void LatencyWatch::obey(std::span<const CostLimit> limits, std::uint64_t now_ns) {
    std::set<std::string> held;
    for (const auto &[step, reason] : limits)
        if (step.kind == CostStep::Kind::Probes && step.subject.starts_with(latency_prefix))
            held.insert(step.subject.substr(latency_prefix.size()));
    probes_.hold(std::move(held), now_ns);
    wake();
}

} // namespace incident::daemon
