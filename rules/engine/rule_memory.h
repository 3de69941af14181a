// The state of one running rule: its conditions' tallies and its limit, and how an event changes them.
#pragma once

#include "rules/engine/all_memory.h"
#include "rules/engine/limit_memory.h"
#include "rules/engine/memory_samples.h"
#include "rules/engine/tally_memory.h"

namespace incident::rules {

class RuleMemory {
public:
    explicit RuleMemory(const Rule &rule);

    // Decides what the event means to the rule. The rule must have the same text as the one this object was made for,
    // and a condition of the event's kind.
    Decision decide(const Rule &rule, const Event &event, Answers answers);

    RuleCounters counters() const;
    void take_counters(const RuleCounters &before); // from the rule with the same name in the previous set of rules

private:
    enum class Step { No, Counted, Met };
    struct Condition {
        TallyMemory tally;
        MemorySamples samples;
    };

    Step step(const Rule &rule, std::size_t index, const Event &event, bool explain, std::string &why);
    Step sample(const Rule &rule, std::size_t index, const Event &event, bool explain, std::string &why);
    Step count(const Rule &rule, std::size_t index, const Event &event, bool explain, std::string &why);
    void fire(const Rule &rule, const Event &event, const ProcessFacts &process, Decision &out);
    void complete(const Rule &rule, const Event &event, bool explain, Decision &out);
    void collect(const Rule &rule, std::size_t index, const Event &event, const ProcessFacts &process, Decision &out);
    void restart(const Rule &rule, std::size_t index, const ProcessFacts &process);
    void restart_all(const Rule &rule, const ProcessFacts &process);

    LimitMemory limits_;
    std::vector<Condition> conditions_;
    AllMemory all_;
    RuleCounters counters_;
    std::uint64_t forgotten_before_ = 0;
};

} // namespace incident::rules
