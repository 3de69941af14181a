#include "rules/engine/engine.h"

#include "rules/engine/rule_memory.h"

#include <algorithm>

namespace incident::rules {

// The memory of one rule, and the rule's text that it belongs to.
struct Engine::Memory {
    std::string rule_text;
    RuleMemory rule;
};

namespace {

// The rule whose probe made the event; nullptr: it is for every rule of its kind.
const std::string *named_rule(const EventKind &what) {
    if (const auto *latency = std::get_if<LatencyEvent>(&what))
        return &latency->rule;
    if (const auto *tracepoint = std::get_if<TracepointEvent>(&what))
        return &tracepoint->rule;
    return nullptr;
}

bool has_kind(const Rule &rule, std::size_t kind) {
    return std::any_of(rule.conditions.begin(), rule.conditions.end(),
                       [&](const Condition &condition) { return condition.what.index() == kind; });
}

} // namespace

Engine::Engine(std::vector<Rule> rules) {
    replace(std::move(rules));
}
Engine::~Engine() = default;
Engine::Engine(Engine &&) noexcept = default;
Engine &Engine::operator=(Engine &&) noexcept = default;

void Engine::decide(std::size_t rule, const Event &event, Answers answers, std::vector<Decision> &out) {
    if (event.only && std::ranges::find(*event.only, rules_[rule].name) == event.only->end())
        return;
    Decision decision = memory_[rule].rule.decide(rules_[rule], event, answers);
    const bool fired = decision.outcome == Outcome::Fire || decision.outcome == Outcome::Suppressed;
    if (fired || answers == Answers::All)
        out.push_back(std::move(decision));
}

std::vector<Decision> Engine::decide(const Event &event, Answers answers) {
    static_assert(std::variant_size_v<EventKind> == std::variant_size_v<ConditionKind>, "alternatives go together");
    std::vector<Decision> decisions;
    const std::size_t kind = event.what.index();
    if (const std::string *name = named_rule(event.what)) {
        const auto found = index_.find(*name);
        if (found != index_.end() && rules_[found->second].enabled && has_kind(rules_[found->second], kind))
            decide(found->second, event, answers, decisions);
        return decisions;
    }
    for (const std::size_t rule : of_kind_[kind])
        decide(rule, event, answers, decisions);
    return decisions;
}

const Rule *Engine::rule(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &rules_[found->second];
}

RuleCounters Engine::counters(std::string_view rule) const {
    const auto found = index_.find(rule);
    return found == index_.end() ? RuleCounters{} : memory_[found->second].rule.counters();
}

std::uint64_t Engine::matched() const {
    std::uint64_t sum = 0;
    for (const Memory &memory : memory_)
        sum += memory.rule.counters().matched;
    return sum;
}

void Engine::replace(std::vector<Rule> rules) {
    std::vector<Memory> memory;
    std::map<std::string, std::size_t, std::less<>> index;
    std::vector<std::vector<std::size_t>> of_kind(std::variant_size_v<EventKind>);
    for (std::size_t i = 0; i < rules.size(); ++i) {
        const Rule &rule = rules[i];
        const auto old = index_.find(rule.name);
        if (old != index_.end() && memory_[old->second].rule_text == rule.text) {
            memory.push_back(std::move(memory_[old->second]));
        } else {
            memory.push_back({rule.text, RuleMemory(rule)});
            if (old != index_.end())
                memory.back().rule.take_counters(counters(rule.name));
        }
        index[rule.name] = i;
        for (std::size_t kind = 0; rule.enabled && kind < of_kind.size(); ++kind)
            if (has_kind(rule, kind))
                of_kind[kind].push_back(i);
    }
    rules_ = std::move(rules);
    memory_ = std::move(memory);
    index_ = std::move(index);
    of_kind_ = std::move(of_kind);
}

} // namespace incident::rules
