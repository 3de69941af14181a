// The RSS samples of processes, for on = "memory": growth is from the lowest of the last
// `within`.  Bounded: KeyedMemory's keys; of each process only samples that may become the
// lowest, at most `most_samples`.
#pragma once

#include "rules/engine/engine.h"
#include "rules/engine/keyed_memory.h"

namespace incident::rules {

class MemorySamples {
public:
    static constexpr std::size_t most_samples = 128;

    struct Answer {
        bool holds = false, began = false; // began: it did not hold at the sample before
        std::uint64_t grown = 0;
    };

    Answer add(const MemoryCondition &condition, std::string_view key, std::uint64_t t_ns, std::uint64_t rss);

    // The samples growth was measured by: from the lowest to the newest.  False where that
    // is not of this time: it matched then, and there were others since.
    bool collect(std::string_view key, std::size_t condition, std::uint64_t t_ns, Decision &out);

    // It has fired: growth counts from the newest sample on.
    void restart(const MemoryCondition &condition, std::string_view key);

    std::uint64_t forgotten() const { return entries_.forgotten(); }

private:
    struct Sample {
        std::uint64_t t_ns, rss;
    };
    struct Entry {
        std::vector<Sample> rising; // each lower than all after it; the newest last
        bool held = false;
    };
    static void push(Entry &entry, Sample sample, std::uint64_t within);

    KeyedMemory<Entry> entries_;
};

} // namespace incident::rules
