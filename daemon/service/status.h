// What the daemon says about itself: the document that `incidentctl status` prints.
#pragma once

#include "daemon/assemble/assembly.h"
#include "daemon/record/recorder.h"
#include "daemon/record/rule_states.h"
#include "daemon/service/control.h"
#include "daemon/service/cost_control.h"
#include "daemon/watch/watches.h"
#include "daemon/write/delivery.h"
#include "rules/engine/engine.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace incident::daemon {

// The incidents that could not be written, as an entry of the losses.
std::vector<capture::Loss> lost_incidents(const IncidentCounters &counters);

nlohmann::ordered_json cost_json(const CostStatus &cost, std::uint64_t rss_bytes);
// What a rule costs: what its probes take in the processes it is about, or what the programs take that all rules of its
// kinds share; null: not measured, or the rule does nothing.
nlohmann::ordered_json rule_cost_json(const rules::Rule &rule, const RuleState &state, const CostStatus &cost);

struct StatusInput {
    const Recorder &recorder;
    const rules::Engine &engine;
    const Delivery &delivery;
    const Watches &watches;
    const ConditionStates &conditions;
    const CostStatus &costs;
    const std::vector<std::string> &rule_errors;
    AssemblyCounters assemblies;
    std::uint64_t pending = 0;                        // incidents under way
    std::string state, config;                        // config: "" none
    const std::vector<std::string> &rule_directories; // absolute
    const std::optional<PastLife> &before;
    std::uint64_t started_realtime_ns = 0, uptime_ns = 0;
    std::uint64_t dropped_events = 0; // see EventQueue
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
    bool cost_beyond_steps = false; // the cost is over the budget, and no step is left
};

// One line with the number of rules by state, the names of those that cannot do all they say, incidents and complaints.
std::string status_line(const StatusLineInput &input);

} // namespace incident::daemon
