// Which conditions of an `all` rule are met now, and for whom: a mark for each condition and
// process, cgroup or host.  Bounded by KeyedMemory.
#pragma once

#include "rules/engine/engine.h"
#include "rules/engine/keyed_memory.h"

namespace incident::rules {

struct Mark {
    std::uint64_t t_ns = 0, value = 0; // of the newest match
};

class AllMemory {
public:
    explicit AllMemory(std::size_t conditions) : marks_(conditions) {}

    // The condition is met by this process, or by its cgroup or the host.
    void met(const Rule &rule, std::size_t condition, const Event &event, std::uint64_t value);

    // For whom the rule is whole now: the event's process; else, where the condition just met
    // is by cgroup or host and was not met before, the process that matched last.
    std::optional<ProcessFacts> whole_for(const Rule &rule, std::size_t condition, const Event &event);

    // The first condition this process still needs.
    std::optional<std::size_t> missing(const Rule &rule, const ProcessFacts &process);

    const Mark *mark(const Rule &rule, std::size_t condition, const ProcessFacts &process);
    void clear(const Rule &rule, std::size_t condition, const ProcessFacts &process);

    std::uint64_t forgotten() const;

private:
    std::vector<KeyedMemory<Mark>> marks_; // by condition
    struct Candidate {
        ProcessFacts process;
        std::uint64_t t_ns = 0;
    };
    KeyedMemory<Candidate> candidates_; // matched a condition by process or cgroup
    bool newly_met_ = false;            // the last met() was the first within the rule's time
};

} // namespace incident::rules
