#include "daemon/plan/rule_history.h"

#include <algorithm>

namespace incident::daemon {

void RuleHistory::begin(TriggerPlan &plan, std::span<const rules::Rule> rules, const FormatOf &format_of) {
    Generation made;
    made.number = plan.generation = ++generation_;
    made.assigned = plan.assigned;
    const Generation *before = now();
    for (const rules::Rule &rule : rules) {
        if (!rule.enabled)
            continue;
        Known known;
        for (const auto &tracepoint : plan.tracepoints)
            if (format_of && tracepoint.rule == rule.name)
                known.formats += format_of(tracepoint) + '\0';
        const auto old = before ? before->rules.find(rule.name) : decltype(before->rules.end()){};
        if (before && old != before->rules.end() && old->second.rule->text == rule.text &&
            old->second.rule->conditions == rule.conditions && old->second.formats == known.formats) {
            known = old->second;
        } else {
            known.first_id = next_id_;
            known.rule = std::make_shared<const rules::Rule>(rule);
            next_id_ += static_cast<std::uint32_t>(std::max<std::size_t>(rule.conditions.size(), 1));
        }
        made.rules.insert_or_assign(rule.name, std::move(known));
    }
    for (unsigned bit = 0; bit < RULE_BITS; ++bit) {
        plan.settings[bit].generation = made.number;
        plan.settings[bit].id = 0;
    }
    for (const auto &assigned : made.assigned)
        if (assigned.bit != RULE_BITS - 1) // shared by all that are beyond
            plan.settings[assigned.bit].id =
                made.rules.at(assigned.rule).first_id + static_cast<std::uint32_t>(assigned.condition);
    for (auto &tracepoint : plan.tracepoints)
        tracepoint.id = made.rules.at(tracepoint.rule).first_id + static_cast<std::uint32_t>(tracepoint.condition);
    kept_.push_back(std::move(made));
    if (kept_.size() > generations_kept)
        kept_.pop_front();
}

const RuleHistory::Generation *RuleHistory::find(std::uint32_t number) const {
    if (kept_.empty() || number < kept_.front().number || number > kept_.back().number)
        return nullptr;
    return &kept_[number - kept_.front().number];
}

bool RuleHistory::unchanged(std::uint32_t generation, std::string_view rule) const {
    const Generation *then = find(generation);
    if (!then)
        return false;
    const auto was = then->rules.find(rule), is = now()->rules.find(rule);
    return was != then->rules.end() && is != now()->rules.end() && was->second.first_id == is->second.first_id;
}

std::vector<std::string> RuleHistory::still(std::uint32_t generation, std::uint64_t bits) const {
    std::vector<std::string> names;
    const Generation *then = find(generation);
    if (!then)
        return names;
    for (const auto &assigned : then->assigned)
        if ((bits >> assigned.bit & 1) && unchanged(generation, assigned.rule) &&
            std::ranges::find(names, assigned.rule) == names.end())
            names.push_back(assigned.rule);
    return names;
}

std::optional<RuleHistory::Condition> RuleHistory::condition(std::uint32_t id) const {
    if (!now())
        return std::nullopt;
    for (const auto &[name, known] : now()->rules)
        if (id >= known.first_id && id - known.first_id < known.rule->conditions.size())
            return Condition{known.rule, id - known.first_id};
    return std::nullopt;
}

std::uint32_t RuleHistory::id_of(std::string_view rule, std::size_t condition) const {
    if (!now())
        return 0;
    const auto found = now()->rules.find(rule);
    return found == now()->rules.end() || condition >= found->second.rule->conditions.size()
               ? 0
               : found->second.first_id + static_cast<std::uint32_t>(condition);
}

std::vector<RuleHistory::Condition> RuleHistory::conditions(std::uint32_t generation, std::uint64_t bits) const {
    std::vector<Condition> all;
    const Generation *then = find(generation);
    if (!then)
        return all;
    for (const auto &assigned : then->assigned)
        if ((bits >> assigned.bit & 1) && unchanged(generation, assigned.rule))
            all.push_back({now()->rules.find(assigned.rule)->second.rule, assigned.condition});
    return all;
}

std::optional<RuleHistory::Condition> RuleHistory::was(std::uint32_t generation, unsigned bit) const {
    const Generation *then = find(generation);
    if (!then)
        return std::nullopt;
    for (const auto &assigned : then->assigned)
        if (assigned.bit == bit)
            return Condition{then->rules.at(assigned.rule).rule, assigned.condition};
    return std::nullopt;
}

} // namespace incident::daemon
