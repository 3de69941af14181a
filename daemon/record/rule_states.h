// Tells whether each rule can do what it says: "active", "degraded: why" (it does a part), "unavailable: why" (it does
// nothing, also because it was detached for its cost or rate), "disabled".  The answer depends on what is attached now.
#pragma once

#include "daemon/record/recorder.h"
#include "rules/engine/engine.h"

#include <map>
#include <string>

namespace incident::daemon {

struct RuleState {
    std::string state = "active";
    std::string reason;
};

// The states of conditions that user space watches (latency, txg_sync, heaps) and of those left out for their cost, by
// "RULE:CONDITION".  Any other condition has the state of its family.
using ConditionStates = std::map<std::string, RuleState>;

// The worst state of its conditions, or the best one if the rule needs any of them.
RuleState state_of(const rules::Rule &rule, const std::map<std::string, FamilyState> &families,
                   const ConditionStates &conditions);

} // namespace incident::daemon
