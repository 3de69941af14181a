// The part of `incidentctl status` about the daemon's own cost.
#include "daemon/service/status.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ranges>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::ptrdiff_t costliest_shown = 5;

nlohmann::ordered_json number_or_null(const std::optional<double> &number) {
    return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

std::string wall_text(std::uint64_t monotonic_ns, std::int64_t offset_ns) {
    return utc_text((static_cast<std::int64_t>(monotonic_ns) + offset_ns) / 1'000'000'000);
}

} // namespace

nlohmann::ordered_json cost_json(const CostStatus &cost, std::uint64_t rss_bytes) {
    const auto &[meter, governor, measured, offset, durations] = cost;
    auto steps = nlohmann::ordered_json::array();
    for (const CostStep &step : governor.steps())
        steps.push_back({{"what", step_text(step)},
                         {"since", wall_text(step.since_ns, offset)},
                         {"why", step_reason(step, governor.budget().share.value_or(0), offset)}});
    nlohmann::ordered_json json = {{"budget", number_or_null(governor.budget().share)},
                                   {"every_s", governor.budget().every_ns / 1'000'000'000},
                                   {"measured", nullptr},
                                   {"problem", meter.problem()}};
    if (measured) {
        json["measured"] = wall_text(measured->t_ns, offset);
        json["cpus"] = measured->cpus;
        json["total"] = measured->total();
        json["programs"] = measured->programs;
        json["daemon"] = measured->daemon;
        auto costliest = nlohmann::ordered_json::array();
        for (const auto &process : measured->processes | std::views::take(costliest_shown))
            if (process.share > 0)
                costliest.push_back({{"pid", process.process.pid},
                                     {"comm", process.comm},
                                     {"cpu_share", process.share},
                                     {"calls_per_second", static_cast<std::uint64_t>(process.calls_per_second)},
                                     {"durations", process.timed && durations}});
        json["costliest"] = std::move(costliest);
        json["strangers"] = {{"cpu_share", measured->strangers.share},
                             {"events_per_second", static_cast<std::uint64_t>(measured->strangers.calls_per_second)}};
    }
    json["daemon_rss_bytes"] = rss_bytes;
    json["steps"] = std::move(steps);
    json["advice"] = measured && governor.at_the_end() ? beyond_steps_text(*measured, governor) : "";
    return json;
}

nlohmann::ordered_json rule_cost_json(const rules::Rule &rule, const RuleState &state, const CostStatus &cost) {
    if (state.state == "unavailable" || state.state == "disabled")
        return nullptr; // what programs take is others'
    double share = 0, events = 0;
    std::set<std::string> programs;
    for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
        const std::string &kind = rule.conditions[i].kind;
        bool own = kind == "latency"; // its probes may be nowhere
        const std::string condition = fmt::format("{}:{}", rule.name, i);
        if (cost.measured)
            for (const auto &probes : cost.measured->probes)
                if (std::ranges::count(probes.conditions, condition)) {
                    own = true;
                    share += probes.share;
                    events += probes.calls_per_second;
                }
        if (!own)
            for (auto &program : Recorder::programs_of(kind))
                programs.insert(std::move(program));
    }
    const auto shared = cost.meter.of({programs.begin(), programs.end()});
    if (!cost.measured || !shared)
        return nullptr;
    share += shared->cpu_share;
    events += shared->runs_per_second;
    return {{"ns_per_event", events > 0 ? static_cast<std::uint64_t>(share * 1e9 / events) : 0},
            {"events_per_second", static_cast<std::uint64_t>(events)},
            {"cpu_share", share}};
}

} // namespace incident::daemon
