// Whether each rule can do what it says: "active", "degraded: why", "unavailable: why",
// "disabled".
#pragma once

#include "daemon/recorder.h"
#include "rules/engine.h"

#include <map>
#include <string>

namespace incident::daemon {

struct RuleState {
    std::string state = "active";
    std::string reason;
};

// Of parts that are watched by user space (latency, txg_sync, memory), keyed "RULE:CONDITION".
using ConditionStates = std::map<std::string, RuleState>;

// The worst of its conditions: of "any" the best.
RuleState state_of(const rules::Rule &rule, const std::map<std::string, FamilyState> &families,
                   const ConditionStates &conditions);

} // namespace incident::daemon
