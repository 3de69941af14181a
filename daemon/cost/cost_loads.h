// Computes what recording and the programs of the kernel side took while their run times were counted.  Each watch adds
// its own part itself (Watch::end_measurement).
#pragma once

#include "daemon/cost/cost_meter.h"
#include "daemon/cost/governor.h"
#include "daemon/plan/trigger_plan.h"

#include <map>
#include <set>
#include <string>

namespace incident::daemon {

// Where the numbers come from.  Valid during one call.
struct CostSources {
    const CostMeter &meter;
    const Recorder &recorder;
    const TriggerPlan &plan;
    std::span<const rules::Rule> rules;
    bool durations_can_be_left_out = false;
    const std::set<capture::ProcessRef> &untimed; // whose durations have been left out
};

// "RULE:CONDITION"
std::string condition_key(std::string_view rule, std::size_t condition);
// The conditions that share one bit.
std::vector<std::string> conditions_of_bit(const TriggerPlan &plan, unsigned bit);
// The texts of the rules that these conditions belong to.  A changed text shows that somebody has edited a rule.
std::string asked_by(const std::vector<std::string> &conditions, std::span<const rules::Rule> rules);

class CostLoads {
public:
    // Call it when the meter has begun a measurement.
    void begin(const Recorder &recorder, std::uint64_t now_ns);
    // Call it after the meter has ended a measurement.
    CostMeasurement measure(const CostSources &sources, std::uint64_t now_ns);

private:
    void add_conditions(const CostSources &sources, CostMeasurement &measured) const;
    void add_durations(const CostSources &sources, CostMeasurement &measured);
    void add_processes(const CostSources &sources, CostMeasurement &measured) const;

    std::uint64_t own_ns_ = 0, own_at_ns_ = 0;          // CPU time of the daemon, and when it was read
    double ns_per_entry_ = 0;                           // of record_enter, when nobody was untimed
    std::map<capture::ProcessRef, ProcessCalls> calls_; // when the measurement began
    std::uint64_t began_ns_ = 0;
};

} // namespace incident::daemon
