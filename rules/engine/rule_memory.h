// One rule at work: its conditions' tallies, its limit, and what an event makes of them.
#pragma once

#include "rules/engine/all_memory.h"
#include "rules/engine/limit_memory.h"
#include "rules/engine/memory_samples.h"
#include "rules/engine/tally_memory.h"

namespace incident::rules {

class RuleMemory {
public:
    explicit RuleMemory(const Rule &rule);

    // What the event means to the rule, which must be the one this was made for (its text at
    // least) and have a condition of the event's kind.
    Decision decide(const Rule &rule, const Event &event, Answers answers);

    RuleCounters counters() const;
    void take_counters(const RuleCounters &before); // of the rule of that name in the set before

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
