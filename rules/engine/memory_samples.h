// The RSS samples of processes, for on = "memory". Growth is measured from the lowest sample within the last `within`.
// Bounded: KeyedMemory limits the processes. For each process only samples that may still become the lowest are kept,
// at most `most_samples`.
#pragma once

#include "rules/engine/engine.h"
#include "rules/engine/keyed_memory.h"
#include "rules/engine/tally_memory.h"

namespace incident::rules {

class MemorySamples {
public:
    static constexpr std::size_t most_samples = 128;

    struct Answer {
        bool holds = false, began = false; // began: the condition did not hold at the previous sample
        std::uint64_t grown = 0;
    };

    // keep_ns: how much longer than for its own answers a process without samples is remembered, for collect().
    Answer add(const MemoryCondition &condition, const TallyKey &key, std::uint64_t t_ns, std::uint64_t rss,
               std::uint64_t keep_ns = 0);

    // The samples that growth was measured with, from the lowest to the newest. Returns false if the event is not
    // the newest sample: the samples of its time may be gone.
    bool collect(std::string_view key, std::size_t condition, std::uint64_t t_ns, Decision &out);

    // To be called after a firing: growth is then measured from the newest sample on.
    void restart(const MemoryCondition &condition, std::string_view key);

    std::uint64_t forgotten() const { return entries_.forgotten(); }

private:
    struct Sample {
        std::uint64_t t_ns, rss;
    };
    struct Entry {
        std::vector<Sample> rising; // each is lower than all later ones; the newest is last
        bool held = false;
    };
    static void push(Entry &entry, Sample sample, std::uint64_t within);

    KeyedMemory<Entry> entries_;
};

} // namespace incident::rules
