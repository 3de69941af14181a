#include "daemon/record/rule_states.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

namespace {

int badness(const RuleState &state) {
    return state.state == "active" ? 0 : state.state == "degraded" ? 1 : 2;
}

// Kinds whose programs are always attached, or whose part in user space says how it fares (latency, txg_sync, memory).
bool has_family(const rules::Condition &condition) {
    if (const auto *exit = std::get_if<rules::ExitCondition>(&condition.what))
        return exit->status.any(); // by signal alone: the recorder itself
    return std::holds_alternative<rules::SyscallCondition>(condition.what) ||
           std::holds_alternative<rules::BlockedCondition>(condition.what) ||
           std::holds_alternative<rules::ReclaimCondition>(condition.what) ||
           std::holds_alternative<rules::BlockIoCondition>(condition.what) ||
           std::holds_alternative<rules::OomCondition>(condition.what) ||
           std::holds_alternative<rules::TracepointCondition>(condition.what);
}

RuleState of_condition(const rules::Rule &rule, std::size_t index, const std::map<std::string, FamilyState> &families,
                       const ConditionStates &conditions) {
    if (const auto known = conditions.find(fmt::format("{}:{}", rule.name, index)); known != conditions.end())
        return known->second;
    const rules::Condition &condition = rule.conditions[index];
    if (!has_family(condition))
        return {};
    std::string key = condition.kind;
    if (const auto *tracepoint = std::get_if<rules::TracepointCondition>(&condition.what))
        key = fmt::format("tracepoint:{}:{}", tracepoint->category, tracepoint->name);
    const auto family = families.find(key);
    if (family != families.end() && family->second.attached)
        return {};
    const bool said = family != families.end() && !family->second.reason.empty();
    return {"unavailable", said ? family->second.reason : "its programs are not attached"};
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
