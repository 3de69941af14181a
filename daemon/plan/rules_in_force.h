// The present rules, with what the kernel side was told about them.
#pragma once

#include "daemon/plan/rule_history.h"
#include "daemon/plan/trigger_plan.h"
#include "rules/engine/engine.h"

#include <utility>
#include <vector>

namespace incident::daemon {

struct RulesInForce {
    explicit RulesInForce(std::vector<rules::Rule> loaded) : engine(std::move(loaded)) {}

    std::span<const rules::Rule> rules() const { return engine.rules(); }

    rules::Engine engine;
    TriggerPlan plan;
    RuleHistory history;
};

} // namespace incident::daemon
