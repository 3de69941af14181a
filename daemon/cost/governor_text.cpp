// The texts about the governor's steps.
#include "daemon/cost/governor.h"

#include <fmt/chrono.h>

#include <algorithm>

namespace incident::daemon {

namespace {

std::string grouped(double value) {
    std::string digits = fmt::format("{:.0f}", value);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<std::size_t>(at), 1, ',');
    return digits;
}

} // namespace

std::string percent_text(double share) {
    const double percent = share * 100;
    std::string text = percent < 0.0995  ? fmt::format("{:.2g}", percent)
                       : percent < 99.95 ? fmt::format("{:.1f}", percent)
                                         : grouped(percent);
    if (text.ends_with(".0"))
        text.resize(text.size() - 2);
    return text + " %";
}

std::string step_text(const CostStep &step) {
    switch (step.kind) {
    case CostStep::Kind::HistoryToSizes:
        return fmt::format("the heap of {} is recorded at level \"sizes\", without history", step.name);
    case CostStep::Kind::SizesToPages:
        return fmt::format("allocations of {} are not recorded", step.name);
    case CostStep::Kind::Durations:
        return fmt::format("durations of system calls of {} are not measured", step.name);
    case CostStep::Kind::Probes:
        return fmt::format("{} detached", step.name);
    }
    return {};
}

std::string step_reason(const CostStep &step, double budget, std::int64_t realtime_offset_ns) {
    const auto retry_s = (static_cast<std::int64_t>(step.retry_ns) + realtime_offset_ns) / 1'000'000'000;
    const std::string own =
        fmt::format("{} of a CPU at {} calls a second", percent_text(step.share), grouped(step.calls_per_second));
    const std::string cost =
        step.by_itself ? own
                       : fmt::format("{} of each CPU {}, this saves up to {}", percent_text(step.total),
                                     step.kind == CostStep::Kind::Probes ? "by rules' probes" : "in total", own);
    return fmt::format("over the cost budget: {}, budget {}; tried again {}{:%H:%M:%SZ}", cost, percent_text(budget),
                       step.by_itself ? "at " : "when there is room, not before ",
                       fmt::gmtime(static_cast<std::time_t>(retry_s)));
}

std::string beyond_steps_text(const CostMeasurement &now, const Governor &governor) {
    const bool durations = now.durations.share > 0;
    std::string strangers;
    if (now.strangers.share >= Governor::least_saving * governor.budget().share.value_or(0) * now.cpus)
        strangers = fmt::format(", of which {} of a CPU go to {} calls a second of processes no rule is about, from "
                                "which rules' programs turn away; no rule is off for that",
                                percent_text(now.strangers.share), grouped(now.strangers.calls_per_second));
    return fmt::format("recording alone takes {} of each CPU, over the budget of {}{}, and nothing more is left "
                       "out for that: narrow the rules' match, {}or raise [cost] budget",
                       percent_text(now.total()), percent_text(governor.budget().share.value_or(0)), strangers,
                       durations ? "set [record] durations = false, " : "");
}

} // namespace incident::daemon
