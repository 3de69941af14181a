// Remembers which conditions of an `all` rule are met now, and for which subject: it keeps a mark for each pair of a
// condition and a process, cgroup or host. KeyedMemory limits how many.
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

    // Notes that this process, its cgroup or the host meets the condition.
    void met(const Rule &rule, std::size_t condition, const Event &event, std::uint64_t value);

    // The process for which all conditions are met now. Usually this is the event's process. If the condition that was
    // just
    // met counts by cgroup or host and was not met before, it can be another process: the one that matched last.
    std::optional<ProcessFacts> whole_for(const Rule &rule, std::size_t condition, const Event &event);

    // The first condition that this process has not met yet.
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
    KeyedMemory<Candidate> candidates_; // processes that matched a condition by process or cgroup
    bool newly_met_ = false;            // the last met() was the first within the rule's time
};

} // namespace incident::rules
