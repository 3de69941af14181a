// The daemon's account of itself: what `incidentctl status` prints.
#pragma once

#include "daemon/cost/cost_meter.h"
#include "daemon/cost/governor.h"
#include "daemon/record/recorder.h"
#include "daemon/record/rule_states.h"
#include "daemon/service/control.h"
#include "daemon/watch/heap_watch.h"
#include "daemon/write/analyst.h"
#include "daemon/write/hook.h"
#include "rules/engine/engine.h"
#include "rules/engine/storm.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace incident::daemon {

struct IncidentCounters {
    std::uint64_t committed = 0, failed = 0, recovered = 0;
    std::uint64_t counted = 0;                           // many alike: not written, see StormPolicy
    std::map<std::string, std::uint64_t> failed_because; // failed, by reason: "No space left on device"
};
// What failed() incidents are among the losses.
std::vector<capture::Loss> lost_incidents(const IncidentCounters &counters);

// What incidentd costs, and what the governor makes of it.
struct CostStatus {
    const CostMeter &meter;
    const Governor &governor;
    const std::optional<CostMeasurement> &measured; // nullopt: not yet
    std::int64_t realtime_offset_ns = 0;            // wall clock minus monotonic
};
nlohmann::ordered_json cost_json(const CostStatus &cost, std::uint64_t rss_bytes);
// What its probes take for the processes it is about, or the programs that all rules of its kinds share; null: not
// measured, or the rule does nothing.
nlohmann::ordered_json rule_cost_json(const rules::Rule &rule, const RuleState &state, const CostStatus &cost);

struct StatusInput {
    const Recorder &recorder;
    const rules::Engine &engine;
    const rules::StormPolicy &storm;
    const Hook &hook;
    const HeapWatch &heaps;
    std::uint64_t heap_memory_max = 0; // [heap] memory
    const ConditionStates &conditions;
    const CostStatus &costs;
    const std::vector<std::string> &rule_errors;
    IncidentCounters incidents;
    AnalystCounters analyses;
    std::uint64_t analyses_pending = 0;
    std::uint64_t pending = 0, suppressed = 0, joined = 0, outdated = 0;
    std::string state, config;                        // config: "" none
    const std::vector<std::string> &rule_directories; // absolute
    const std::optional<PastLife> &before;
    std::uint64_t started_realtime_ns = 0, uptime_ns = 0;
};

std::string utc_text(std::int64_t seconds); // "2026-11-22T01:02:03Z"

std::string status_json(const StatusInput &input);

struct StatusLineInput {
    const rules::Engine &engine;
    const std::map<std::string, FamilyState> &families;
    const ConditionStates &conditions;
    std::size_t complaints = 0; // about rule files
    bool reload_refused = false;
    IncidentCounters incidents;
    std::uint64_t pending = 0;
    std::size_t cost_steps = 0;
    bool cost_beyond_steps = false; // over the budget, and no step is left
};

// One line: rules by state, with the names of those that cannot do all they say, incidents, complaints.
std::string status_line(const StatusLineInput &input);

} // namespace incident::daemon
