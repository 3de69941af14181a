// What each part of incidentd took while the programs' run times were counted: the measurement the
// governor decides by.
#pragma once

#include "daemon/cost/cost_meter.h"
#include "daemon/cost/governor.h"
#include "daemon/plan/trigger_plan.h"
#include "daemon/watch/heap_watch.h"
#include "daemon/watch/latency_watch.h"

#include <map>
#include <set>
#include <string>

namespace incident::daemon {

// Who is asked; valid for the time of a call.
struct CostSources {
    const CostMeter &costs;
    const Recorder &recorder;
    const LatencyWatch &latency;
    const HeapWatch &heaps;
    const TriggerPlan &plan;
    std::span<const rules::Rule> rules;
    bool durations_can_be_left_out = false;
};

// The conditions ("RULE:CONDITION") that share a bit.
std::vector<std::string> conditions_of_bit(const TriggerPlan &plan, unsigned bit);
// The texts of the rules these conditions are of: another one where somebody has edited them.
std::string asked_by(const std::vector<std::string> &conditions, std::span<const rules::Rule> rules);
// The conditions a latency probe serves.
std::vector<std::string> conditions_of(const LatencyProbes::Load &load);
constexpr std::string_view latency_prefix = "latency:"; // of the keys of such probes

class CostLoads {
public:
    void begin(const CostSources &sources, std::uint64_t now_ns);
    CostMeasurement end(const CostSources &sources, std::uint64_t now_ns);

private:
    void add_heaps(const CostSources &sources, double seconds, CostMeasurement &measured) const;
    void add_latency(const CostSources &sources, double seconds, CostMeasurement &measured) const;
    void add_conditions(const CostSources &sources, CostMeasurement &measured) const;
    void add_durations(const CostSources &sources, CostMeasurement &measured);

    std::uint64_t began_ns_ = 0;
    std::uint64_t own_ns_ = 0, own_at_ns_ = 0; // CPU time of this process, and when it was read
    std::map<std::uint32_t, HeapProcess::Load> heaps_;
    std::map<std::string, std::uint64_t> calls_; // by latency probe's key
    double ns_per_entry_ = 0;                    // of record_enter, when it was last attached
};

} // namespace incident::daemon
