// The firings a rule remembers for its limit: per key (the rule, a process, an
// executable) the last hour's times and what was suppressed since.
//
// Bounded: at most `most_keys` keys and `most_times` times over all keys; beyond
// it the key not used for longest is forgotten and counted.  A forgotten key
// starts afresh, so a flood of distinct keys can at worst fire as often as if it
// had come slowly.
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
        std::string held_by;                 // "" : fire; else the limit that holds
        std::uint64_t suppressed_before = 0; // for a firing: since this key's last one
    };

    // May this key fire now?  Remembers the answer.  Times that run backwards a
    // little (events of several CPUs) count as the latest seen of their key.
    Answer ask(const Limit &limit, const std::string &key, std::uint64_t t_ns);

    std::uint64_t forgotten() const { return forgotten_; }

private:
    struct Entry {
        std::string key;
        std::vector<std::uint64_t> times; // of firings, oldest first; only the last hour's if per_hour is set
        std::uint64_t suppressed = 0;     // since the last of them
    };

    Entry &entry(const std::string &key);
    void remember(const Limit &limit, Entry &entry, std::uint64_t now);
    void forget_last();

    std::list<Entry> entries_; // last used first
    std::unordered_map<std::string, std::list<Entry>::iterator> index_;
    std::size_t times_ = 0; // over all entries
    std::uint64_t forgotten_ = 0;
};

} // namespace incident::rules
