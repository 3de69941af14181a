// Remembers a rule's firings for its limit. For each key (the rule, a process, an executable) it keeps the times of the
// last hour and how many firings were suppressed since.
// Bounded: at most `most_keys` keys, and `most_times` times over all keys. Beyond that the least recently used key is
// forgotten, and the loss is counted. A forgotten key starts again from zero. So a flood of distinct keys can at worst
// fire as often as the same keys would if they came slowly.
#pragma once

#include "rules/model/rule.h"

#include <list>
#include <unordered_map>

namespace incident::rules {

class LimitMemory {
public:
    static constexpr std::size_t most_keys = 4096;
    static constexpr std::size_t most_times = 65536;

    struct Answer {
        std::string held_by;                 // "": may fire; otherwise the limit that forbids it
        std::uint64_t suppressed_before = 0; // for a firing: how many were suppressed since this key's last firing
    };

    // Decides whether this key may fire now, and remembers the answer. Events of several CPUs may come slightly out of
    // order: an earlier time counts as the latest time seen for its key.
    Answer ask(const Limit &limit, const std::string &key, std::uint64_t t_ns);

    std::uint64_t forgotten() const { return forgotten_; }

private:
    struct Entry {
        std::string key;
        std::vector<std::uint64_t>
            times; // of firings, oldest first: those of the last hour; without per_hour only the last
        std::uint64_t suppressed = 0; // since the last of them
    };

    Entry &entry(const std::string &key);
    void remember(const Limit &limit, Entry &entry, std::uint64_t now);
    void forget_last();

    std::list<Entry> entries_; // most recently used first
    std::unordered_map<std::string, std::list<Entry>::iterator> index_;
    std::size_t times_ = 0; // over all entries
    std::uint64_t forgotten_ = 0;
};

} // namespace incident::rules
