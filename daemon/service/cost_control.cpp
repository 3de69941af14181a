#include "daemon/service/cost_control.h"

#include "daemon/os/clocks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::uint64_t soon_ns = 5'000'000'000; // what is over the budget is measured again

std::int64_t realtime_offset() {
    return static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME)) - static_cast<std::int64_t>(clock_ns(CLOCK_MONOTONIC));
}

} // namespace

CostControl::CostControl(Recorder &recorder, const RulesInForce &rules, Watches &watches, const rules::Config &config)
    : recorder_(recorder), rules_(rules), watches_(watches), durations_wanted_(config.record.durations),
      governor_({config.cost.budget, static_cast<std::uint64_t>(config.cost.every.count())}) {
    meter_.set_period(governor_.budget().every_ns);
}

std::uint64_t CostControl::tick(std::uint64_t now_ns) {
    const bool counted = meter_.counting();
    if (!counted)
        watches_.each([](Watch &watch) { watch.prepare_measurement(); });
    std::uint64_t next = meter_.tick(recorder_, now_ns);
    if (!counted) {
        if (meter_.counting()) {
            began_ns_ = now_ns;
            loads_.begin(recorder_, now_ns);
            watches_.each([](Watch &watch) { watch.begin_measurement(); });
        }
        return next;
    }
    const std::set<capture::ProcessRef> untimed = this->untimed();
    measured_ = loads_.measure({.meter = meter_,
                                .recorder = recorder_,
                                .plan = rules_.plan,
                                .rules = rules_.rules(),
                                .durations_can_be_left_out = durations_wanted_ && !rules_.plan.durations,
                                .untimed = untimed},
                               now_ns);
    const double seconds = static_cast<double>(now_ns - began_ns_) / 1e9;
    watches_.each([&](const Watch &watch) { watch.end_measurement(meter_, seconds, *measured_); });
    const bool at_the_end = governor_.at_the_end();
    const auto changes = governor_.measured(*measured_);
    for (const auto &change : changes)
        log(change);
    if (governor_.at_the_end() && !at_the_end)
        spdlog::warn("cost: {}", beyond_steps_text(*measured_, governor_));
    if (!changes.empty())
        obey(now_ns);
    else
        leave_untimed();
    if (governor_.is_unsettled())
        next = std::min(next, soon_ns);
    return next;
}

std::set<capture::ProcessRef> CostControl::untimed() const {
    std::set<capture::ProcessRef> processes;
    for (const CostStep &step : governor_.steps())
        if (step.kind == CostStep::Kind::Durations)
            processes.insert(step.process);
    return processes;
}

std::string CostControl::reason_of(const CostStep &step) const {
    return step_reason(step, *governor_.budget().share, realtime_offset());
}

void CostControl::log(const Governor::Change &change) const {
    if (change.what == Governor::Change::What::Taken)
        spdlog::warn("cost: {}: {}", step_text(change.step), reason_of(change.step));
    else if (change.what == Governor::Change::What::Undone)
        spdlog::info("cost: as rules ask again: {}: it is tried whether there is room now",
                     change.step.kind == CostStep::Kind::Durations ? "durations of system calls of " + change.step.name
                                                                   : change.step.name);
}

// Whatever is not among the steps is as rules and configuration ask.
void CostControl::obey(std::uint64_t now_ns) {
    std::vector<CostLimit> limits;
    for (const CostStep &step : governor_.steps())
        limits.push_back({step, reason_of(step)});
    watches_.each([&](Watch &watch) { watch.obey(limits, now_ns); });
    record_durations();
    std::set<std::string> left_out;
    for (const CostStep &step : governor_.steps())
        if (step.kind == CostStep::Kind::Probes && !watches_.conditions_of(step.subject)) // else the watch does it
            left_out.insert(step.conditions.begin(), step.conditions.end());
    recorder_.leave_out(std::move(left_out), rules_.plan);
}

void CostControl::record_durations() {
    if (const auto set = recorder_.record_entries(durations_wanted_ || rules_.plan.durations); !set)
        spdlog::error("calls have no durations: {}", set.error().what);
    leave_untimed();
}

// A rule about how long calls last needs those of each.
void CostControl::leave_untimed() {
    if (const auto set = recorder_.leave_untimed(rules_.plan.durations ? std::set<capture::ProcessRef>() : untimed());
        !set)
        spdlog::error("cost: {}", set.error().what);
}

void CostControl::describe(ConditionStates &states) const {
    for (const CostStep &step : governor_.steps())
        for (const auto &condition : step.conditions)
            states[condition] = {"unavailable",
                                 fmt::format("detached since {}, {}", time_text(step.since_ns), reason_of(step))};
}

bool CostControl::review(std::uint64_t now_ns) {
    const auto conditions_now = [&](const CostStep &step) {
        if (auto conditions = watches_.conditions_of(step.subject))
            return std::move(*conditions);
        for (const auto &assigned : rules_.plan.assigned)
            if (condition_key(assigned.rule, assigned.condition) == step.conditions.front())
                return conditions_of_bit(rules_.plan, assigned.bit);
        return std::vector<std::string>();
    };
    const std::size_t before = governor_.steps().size();
    governor_.forget([&](const CostStep &step) {
        if (step.kind == CostStep::Kind::Durations)
            return rules_.plan.durations;
        return step.kind == CostStep::Kind::Probes && asked_by(conditions_now(step), rules_.rules()) != step.asked;
    });
    obey(now_ns);
    return governor_.steps().size() != before && !meter_.counting();
}

capture::CostRecord CostControl::record(std::uint32_t pid) const {
    capture::CostRecord record;
    record.budget = governor_.budget().share;
    if (measured_) {
        record.measured_ns = measured_->t_ns;
        record.total = measured_->total();
        record.programs = measured_->programs;
        record.daemon = measured_->daemon;
    }
    for (const CostStep &step : governor_.steps())
        if (step.kind == CostStep::Kind::Probes || step.process.pid == pid)
            record.degraded.push_back({step_text(step), reason_of(step), step.since_ns});
    return record;
}

CostStatus CostControl::status() const {
    return {meter_, governor_, measured_, realtime_offset(), recorder_.entries_recorded()};
}

} // namespace incident::daemon
