// What each part of incidentd took while the programs' run times were counted: the measurement the
// governor decides by.
#pragma once

#include "daemon/cost_meter.h"
#include "daemon/governor.h"
#include "daemon/heap_watch.h"
#include "daemon/latency_watch.h"
#include "daemon/recorder_tracepoint_counts.h"
#include "daemon/trigger_plan.h"

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
    const std::set<std::string> &left_out; // families and tracepoints the governor has taken off
    bool durations_can_be_left_out = false;
};

class CostLoads {
public:
    void begin(const CostSources &sources, std::uint64_t now_ns);
    CostMeasurement end(const CostSources &sources, std::uint64_t now_ns);

private:
    void add_heaps(const CostSources &sources, double seconds, CostMeasurement &measured) const;
    void add_latency(const CostSources &sources, double seconds, CostMeasurement &measured) const;
    void add_families(const CostSources &sources, CostMeasurement &measured) const;
    void add_tracepoints(const CostSources &sources, CostMeasurement &measured) const;
    void add_durations(const CostSources &sources, CostMeasurement &measured);

    std::uint64_t began_ns_ = 0;
    std::uint64_t own_ns_ = 0, own_at_ns_ = 0; // CPU time of this process, and when it was read
    std::map<std::uint32_t, HeapProcess::Load> heaps_;
    std::map<std::string, std::uint64_t> calls_; // by latency probe's key
    TracepointCounts tracepoints_;
    double ns_per_entry_ = 0; // of record_enter, when it was last attached
};

} // namespace incident::daemon
