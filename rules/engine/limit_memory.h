// Remembers a rule's firings for its limit.  For each key (the rule, a process, an executable) and user it keeps the
// times of the last hour and how many firings were suppressed since.  Each user has the whole of the limit, so none can
// use up that of another one.  All together have `users_together` times as many firings an hour; beyond that, only
// those fire who have not within the hour.
// Bounded: at most `most_keys` keys, and `most_times` times over all keys.  Beyond that the user with the most loses
// the least recently used of hers, and the loss is counted.  A forgotten key starts again from zero.  So a flood of
// distinct keys can at worst fire as often as the same keys would if they came slowly.
#pragma once

#include "rules/engine/keyed_memory.h"
#include "rules/model/rule.h"

#include <array>
#include <optional>

namespace incident::rules {

class LimitMemory {
public:
    static constexpr std::size_t most_keys = 4096;
    static constexpr std::size_t most_times = 65536;
    static constexpr std::uint64_t users_together = 8;
    static constexpr std::size_t most_ids = 16; // of one user that have a limit each, see rules/model/user.h

    struct Answer {
        std::string held_by;                 // "": may fire; otherwise the limit that forbids it
        std::uint64_t suppressed_before = 0; // for a firing: how many were suppressed since the last one that it limits
    };

    // Decides whether this key may fire now, and remembers the answer.  uid: of the process that it fires for; none:
    // the rule is about the host, and all share its limit.  Events of several CPUs may come slightly out of order: an
    // earlier time counts as the latest time seen for its key.
    Answer ask(const Limit &limit, const std::string &key, std::optional<std::uint32_t> uid, std::uint64_t t_ns);

    std::uint64_t forgotten() const { return entries_.forgotten(); }

private:
    struct Firings {
        std::optional<std::uint32_t> uid;
        // Oldest first: those of the last hour; without per_hour only the last.
        std::vector<std::uint64_t> times{};
        std::uint64_t suppressed = 0; // since the last of them
    };
    struct Entry { // of one key and user
        std::uint32_t user = 0;
        std::vector<Firings> of_ids;
    };
    // How many firings of a key there were within the hour, whoever's, to the minute.
    struct Together {
        std::array<std::uint32_t, 60> by_minute{};
        std::uint64_t newest = 0; // minute
        std::uint64_t count(std::uint64_t now_ns);
    };

    Firings &firings(const Limit &limit, Entry &entry, std::optional<std::uint32_t> uid, std::uint64_t t_ns);
    void expire(const Limit &limit, std::uint32_t user, Firings &firings, std::uint64_t now);
    void remember(const Limit &limit, std::uint32_t user, Firings &firings, std::uint64_t now);

    KeyedMemory<Entry, most_keys> entries_;
    KeyedMemory<Together, most_keys> together_;
    UserWeights times_; // over all entries
};

} // namespace incident::rules
