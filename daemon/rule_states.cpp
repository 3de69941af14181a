#include "daemon/rule_states.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

namespace {

int badness(const RuleState &state) {
    return state.state == "active" ? 0 : state.state == "degraded" ? 1 : 2;
}

RuleState of_condition(const rules::Rule &rule, std::size_t index, const std::map<std::string, FamilyState> &families,
                       const ConditionStates &conditions) {
    const std::string key = fmt::format("{}:{}", rule.name, index);
    if (const auto known = conditions.find(key); known != conditions.end())
        return known->second;
    const std::string &kind = rule.conditions[index].kind;
    auto family = families.find(kind);
    if (kind == "tracepoint")
        family = families.find("tracepoint:" + key);
    // A rule about exits by signal alone rests on the recorder itself.
    if (family == families.end() || family->second.attached || family->second.reason.empty())
        return {};
    return {"unavailable", family->second.reason};
}

} // namespace

RuleState state_of(const rules::Rule &rule, const std::map<std::string, FamilyState> &families,
                   const ConditionStates &conditions) {
    if (!rule.enabled)
        return {"disabled", "enabled = false"};
    RuleState worst, best;
    for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
        RuleState state = of_condition(rule, i, families, conditions);
        if (i == 0 || badness(state) > badness(worst))
            worst = state;
        if (i == 0 || badness(state) < badness(best))
            best = std::move(state);
    }
    if (rule.combine != rules::Combine::Any)
        return worst;
    if (badness(best) < badness(worst)) // some of it works
        return {"degraded", worst.reason};
    return best;
}

} // namespace incident::daemon
