// The daemon measures what it costs, and does what the governor says.
#include "daemon/service/daemon.h"

#include "daemon/os/clocks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>

namespace incident::daemon {

namespace {

std::int64_t realtime_offset() {
    return static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME)) - static_cast<std::int64_t>(clock_ns(CLOCK_MONOTONIC));
}

} // namespace

CostSources Daemon::cost_sources() const {
    return {.costs = costs_,
            .recorder = *recorder_,
            .latency = *latency_,
            .heaps = *heaps_,
            .plan = plan_,
            .rules = engine_->rules(),
            .durations_can_be_left_out = config_.record.durations && !plan_.durations};
}

void Daemon::on_cost() {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    const bool counted = costs_.counting();
    if (!counted)
        latency_->measure_traps();
    cost_timer_.arm_in(costs_.tick(*recorder_, now));
    if (!counted) {
        if (costs_.counting())
            loads_.begin(cost_sources(), now);
        return;
    }
    measured_ = loads_.end(cost_sources(), now);
    const bool at_the_end = governor_.at_the_end();
    const auto changes = governor_.measured(*measured_);
    for (const auto &change : changes)
        log(change);
    if (governor_.at_the_end() && !at_the_end)
        spdlog::warn("cost: {}", beyond_steps_text(*measured_, governor_));
    if (!changes.empty())
        obey_governor();
    tell_manager();
}

void Daemon::log(const Governor::Change &change) const {
    const double budget = *governor_.budget().share;
    if (change.what == Governor::Change::What::Taken)
        spdlog::warn("cost: {}: {}", step_text(change.step), step_reason(change.step, budget, realtime_offset()));
    else if (change.what == Governor::Change::What::Undone)
        spdlog::info("cost: as rules ask again: {}: it is tried whether there is room now",
                     change.step.name.empty() ? "durations of system calls" : change.step.name);
}

// Whatever is not among the steps is as rules and configuration ask.
void Daemon::obey_governor() {
    std::set<std::string> held, left_out;
    std::map<std::uint32_t, HeapWatch::Limit> limits;
    const auto offset = realtime_offset();
    for (const CostStep &step : governor_.steps()) {
        const std::string why = step_reason(step, *governor_.budget().share, offset);
        const auto pid = static_cast<std::uint32_t>(std::strtoul(step.subject.c_str(), nullptr, 10));
        switch (step.kind) {
        case CostStep::Kind::HistoryToSizes:
            limits.insert_or_assign(pid, HeapWatch::Limit{rules::Allocations::Sizes, why});
            break;
        case CostStep::Kind::SizesToPages: // a later step than the other of the same process
            limits.insert_or_assign(pid, HeapWatch::Limit{rules::Allocations::Pages, why});
            break;
        case CostStep::Kind::Durations: // record_durations() looks itself
            break;
        case CostStep::Kind::Probes:
            if (step.subject.starts_with(latency_prefix))
                held.insert(step.subject.substr(latency_prefix.size()));
            else
                left_out.insert(step.conditions.begin(), step.conditions.end());
            break;
        }
    }
    heaps_->limit(std::move(limits));
    record_durations();
    recorder_->leave_out(std::move(left_out), plan_);
    latency_->hold(std::move(held), clock_ns(CLOCK_MONOTONIC));
    on_latency();
}

// The one place that says whether system calls have durations: as configured, as rules need it, as the budget allows.
void Daemon::record_durations() {
    const bool afforded =
        std::ranges::find(governor_.steps(), CostStep::Kind::Durations, &CostStep::kind) == governor_.steps().end();
    if (const auto set = recorder_->record_entries((config_.record.durations && afforded) || plan_.durations); !set)
        spdlog::error("calls have no durations: {}", set.error().what);
}

// The conditions whose probes are off for what they cost: of rules that do nothing.
void Daemon::describe_steps(ConditionStates &states) const {
    for (const CostStep &step : governor_.steps())
        for (const auto &condition : step.conditions)
            states[condition] = {"unavailable",
                                 fmt::format("detached since {}, {}", time_text(step.since_ns),
                                             step_reason(step, *governor_.budget().share, realtime_offset()))};
}

// The rules are others: what was decided for their cost is decided anew where what is asked for is another thing, and
// still holds elsewhere.  Whether some is.
bool Daemon::review_steps() {
    const auto loads = latency_->loads();
    const auto conditions_now = [&](const CostStep &step) -> std::vector<std::string> {
        if (step.subject.starts_with(latency_prefix)) {
            const auto load =
                std::ranges::find(loads, step.subject.substr(latency_prefix.size()), &LatencyProbes::Load::key);
            return load == loads.end() ? std::vector<std::string>() : conditions_of(*load);
        }
        for (const auto &assigned : plan_.assigned)
            if (fmt::format("{}:{}", assigned.rule, assigned.condition) == step.conditions.front())
                return conditions_of_bit(plan_, assigned.bit);
        return {};
    };
    const std::size_t before = governor_.steps().size();
    governor_.forget([&](const CostStep &step) {
        return step.kind == CostStep::Kind::Probes && asked_by(conditions_now(step), engine_->rules()) != step.asked;
    });
    obey_governor();
    return governor_.steps().size() != before;
}

capture::CostRecord Daemon::cost_record() const {
    capture::CostRecord record;
    record.budget = governor_.budget().share;
    if (measured_) {
        record.measured_ns = measured_->t_ns;
        record.total = measured_->total();
        record.programs = measured_->programs;
        record.daemon = measured_->daemon;
    }
    for (const CostStep &step : governor_.steps())
        record.degraded.push_back(
            {step_text(step), step_reason(step, *governor_.budget().share, realtime_offset()), step.since_ns});
    return record;
}

} // namespace incident::daemon
