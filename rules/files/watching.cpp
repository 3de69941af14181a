// Which processes and which signals the rules look at.
#include "rules/conditions/kinds.h"
#include "rules/engine/engine.h"
#include "rules/model/match.h"

#include <algorithm>

namespace incident::rules {
namespace {

bool of_memory_or_disk(const Condition &condition) {
    return std::holds_alternative<ReclaimCondition>(condition.what) ||
           std::holds_alternative<TxgCondition>(condition.what);
}

// The past of processes is part of the rule's incidents.
bool wants_recording(const Rule &rule) {
    if (!rule.enabled)
        return false;
    if (!std::all_of(rule.conditions.begin(), rule.conditions.end(), of_memory_or_disk))
        return true;
    return !rule.match.everything() && !std::all_of(rule.conditions.begin(), rule.conditions.end(), of_host);
}

} // namespace

bool Engine::watches(const ProcessFacts &process) const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [&](const Rule &rule) { return wants_recording(rule) && matches(rule.match, process); });
}

bool Engine::watches_everything() const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [](const Rule &rule) { return wants_recording(rule) && rule.match.everything(); });
}

bool Engine::looks_at_comm() const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [](const Rule &rule) { return rule.enabled && !rule.match.comm.empty(); });
}

bool Engine::looks_at_cgroup() const {
    return std::any_of(rules_.begin(), rules_.end(), [](const Rule &rule) {
        const bool counts_by_it = std::any_of(rule.conditions.begin(), rule.conditions.end(),
                                              [](const Condition &c) { return c.tally.by == TallyBy::Cgroup; });
        return rule.enabled && (!rule.match.cgroup.empty() || !rule.match.unit.empty() || counts_by_it ||
                                rule.limit.by == LimitBy::Cgroup);
    });
}

std::bitset<65> Engine::signals(bool fatal) const {
    std::bitset<65> all;
    for (const Rule &rule : rules_)
        for (const Condition &condition : rule.conditions) {
            if (!rule.enabled)
                continue;
            if (const auto *signal = std::get_if<SignalCondition>(&condition.what); signal && (fatal || !signal->fatal))
                all |= signal->signals;
            if (const auto *exit = std::get_if<ExitCondition>(&condition.what); exit && fatal)
                all |= exit->signals;
        }
    return all;
}

} // namespace incident::rules
