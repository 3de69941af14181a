#include "rules/engine.h"

#include "rules/limit_memory.h"
#include "rules/match.h"
#include "rules/signal_match.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {

// Of one rule: what its limit remembers, and the text that memory belongs to.
struct Engine::Memory {
    std::string rule_text;
    LimitMemory limits;
};

namespace {

std::string limit_key(LimitBy by, const ProcessFacts &process) {
    switch (by) {
    case LimitBy::Rule:
        break;
    case LimitBy::Process: // the start time keeps a reused pid apart
        return fmt::format("{}@{}", process.pid, process.start_boot_ns);
    case LimitBy::Exe: // comm when the exe could not be read; a path begins with '/', so they never clash
        return process.exe.empty() ? "comm " + process.comm : process.exe;
    }
    return {};
}

const SignalCondition *signal_condition(const Rule &rule) {
    return std::get_if<SignalCondition>(&rule.condition);
}

} // namespace

Engine::Engine(std::vector<Rule> rules) {
    replace(std::move(rules));
}
Engine::~Engine() = default;
Engine::Engine(Engine &&) noexcept = default;
Engine &Engine::operator=(Engine &&) noexcept = default;

std::vector<Decision> Engine::decide(const SignalEvent &event) {
    std::vector<Decision> decisions;
    for (const Rule &rule : rules_) {
        const SignalCondition *condition = signal_condition(rule);
        if (!rule.enabled || condition == nullptr)
            continue;
        Decision decision{.rule = &rule};
        decision.why = mismatch(*condition, event);
        if (decision.why.empty())
            decision.why = mismatch(rule.match, event.process);
        if (decision.why.empty()) {
            RuleCounters &counters = counters_[rule.name];
            LimitMemory &limits = memory_[rule.name].limits;
            auto answer = limits.ask(rule.limit, limit_key(rule.limit.by, event.process), event.t_ns);
            decision.verdict = answer.held_by.empty() ? Verdict::Fire : Verdict::Suppressed;
            decision.why = std::move(answer.held_by);
            decision.suppressed_before = answer.suppressed_before;
            ++(decision.verdict == Verdict::Fire ? counters.fired : counters.suppressed);
            counters.forgotten_keys = limits.forgotten();
        }
        decisions.push_back(std::move(decision));
    }
    return decisions;
}

RuleCounters Engine::counters(std::string_view rule) const {
    const auto found = counters_.find(rule);
    return found == counters_.end() ? RuleCounters{} : found->second;
}

bool Engine::watches(const ProcessFacts &process) const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [&](const Rule &rule) { return rule.enabled && mismatch(rule.match, process).empty(); });
}

bool Engine::watches_everything() const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [](const Rule &rule) { return rule.enabled && rule.match.everything(); });
}

bool Engine::looks_at_comm() const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [](const Rule &rule) { return rule.enabled && !rule.match.comm.empty(); });
}

bool Engine::looks_at_cgroup() const {
    return std::any_of(rules_.begin(), rules_.end(), [](const Rule &rule) {
        return rule.enabled && (!rule.match.cgroup.empty() || !rule.match.unit.empty());
    });
}

std::bitset<65> Engine::signals(bool fatal) const {
    std::bitset<65> all;
    for (const Rule &rule : rules_)
        if (const SignalCondition *condition = signal_condition(rule); rule.enabled && condition != nullptr)
            if (fatal || !condition->fatal)
                all |= condition->signals;
    return all;
}

void Engine::replace(std::vector<Rule> rules) {
    std::map<std::string, RuleCounters, std::less<>> counters;
    std::map<std::string, Memory, std::less<>> memory;
    for (const Rule &rule : rules) {
        counters[rule.name] = this->counters(rule.name);
        const auto old = memory_.find(rule.name);
        if (old != memory_.end() && old->second.rule_text == rule.text)
            memory.emplace(rule.name, std::move(old->second));
        else
            memory.emplace(rule.name, Memory{rule.text, {}});
    }
    rules_ = std::move(rules);
    counters_ = std::move(counters);
    memory_ = std::move(memory);
}

} // namespace incident::rules
