#include "daemon/cost/cost_meter.h"

#include <algorithm>
#include <bit>

namespace incident::daemon {

std::uint64_t CostMeter::tick(Recorder &recorder, std::uint64_t now_ns) {
    if (!on_) {
        auto on = recorder.count_run_times();
        if (!on) {
            problem_ = on.error().what;
            return every_ns_;
        }
        on_ = std::move(*on);
        before_ = recorder.run_times();
        own_before_ = recorder.own_costs();
        began_ns_ = now_ns;
        return lasts_ns;
    }
    const auto after = recorder.run_times();
    own_ = recorder.own_costs();
    on_ = UniqueFd();
    recorder.end_counting();
    for (OwnCost &own : own_)
        for (const OwnCost &before : own_before_)
            if (before.rules == own.rules && before.program == own.program) {
                own.runs -= before.runs;
                own.ns -= before.ns;
            }
    const double seconds = static_cast<double>(now_ns - began_ns_) / 1e9;
    counted_s_ = seconds;
    costs_.clear();
    for (const auto &[program, time] : after) {
        const auto &before = before_[program];
        const double runs = static_cast<double>(time.runs - before.runs), ns = static_cast<double>(time.ns - before.ns);
        costs_[program] = {runs > 0 ? ns / runs : 0, seconds > 0 ? runs / seconds : 0,
                           seconds > 0 ? ns / 1e9 / seconds : 0};
    }
    measured_ns_ = now_ns;
    return every_ns_ - std::min(every_ns_, lasts_ns);
}

Cost CostMeter::of_program(const std::string &program) const {
    const auto found = costs_.find(program);
    return found == costs_.end() ? Cost{} : found->second;
}

OwnPart CostMeter::own(const std::string &program) const {
    const auto found = costs_.find(program);
    return found == costs_.end() ? OwnPart{} : own_part(program, found->second, own_, counted_s_);
}

OwnPart own_part(const std::string &program, const Cost &all, const std::vector<OwnCost> &costs, double seconds) {
    if (seconds <= 0)
        return {};
    double runs = 0, behind = 0; // a second; of a CPU behind the point at which strangers are let go
    for (const OwnCost &own : costs)
        if (own.program == program) {
            runs += static_cast<double>(own.runs) / seconds;
            behind += static_cast<double>(own.ns) / 1e9 / seconds;
        }
    // Up to that point a run costs whoever makes it the same.
    const double to_it = all.runs_per_second > 0 ? std::max(0.0, all.cpu_share - behind) / all.runs_per_second : 0;
    OwnPart part;
    for (const OwnCost &own : costs) {
        if (own.program != program)
            continue;
        const double own_runs = static_cast<double>(own.runs) / seconds;
        const double share = static_cast<double>(own.ns) / 1e9 / seconds + own_runs * to_it;
        const int conditions = std::popcount(own.rules);
        for (unsigned bit = 0; bit < RULE_BITS; ++bit)
            if (own.rules >> bit & 1) {
                part.by_bit[bit].cpu_share += share / conditions;
                part.by_bit[bit].runs_per_second += own_runs / conditions;
            }
    }
    part.strangers.runs_per_second = std::max(0.0, all.runs_per_second - runs);
    part.strangers.cpu_share = part.strangers.runs_per_second * to_it;
    return part;
}

std::optional<Cost> CostMeter::of(const std::vector<std::string> &programs) const {
    if (costs_.empty())
        return std::nullopt;
    Cost sum;
    for (const std::string &program : programs)
        if (const auto found = costs_.find(program); found != costs_.end()) {
            sum.runs_per_second += found->second.runs_per_second;
            sum.cpu_share += found->second.cpu_share;
        }
    sum.ns_per_run = sum.runs_per_second > 0 ? sum.cpu_share * 1e9 / sum.runs_per_second : 0;
    return sum;
}

} // namespace incident::daemon
