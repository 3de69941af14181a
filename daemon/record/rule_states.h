// Whether each rule can do what it says: "active", "degraded: why" (part of it), "unavailable: why" (it does nothing,
// which includes what is detached for its cost or rate), "disabled".  It rests on what is attached now.
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

// Of parts that are watched by user space (latency, txg_sync, heaps), and of what is left out for its cost, keyed
// "RULE:CONDITION"; others are as attached as their family.
using ConditionStates = std::map<std::string, RuleState>;

// The worst of its conditions: of "any" the best.
RuleState state_of(const rules::Rule &rule, const std::map<std::string, FamilyState> &families,
                   const ConditionStates &conditions);

} // namespace incident::daemon
