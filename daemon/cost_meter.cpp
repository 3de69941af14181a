#include "daemon/cost_meter.h"

#include <algorithm>

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
        began_ns_ = now_ns;
        return lasts_ns;
    }
    const auto after = recorder.run_times();
    on_ = UniqueFd();
    const double seconds = static_cast<double>(now_ns - began_ns_) / 1e9;
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
