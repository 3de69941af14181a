// Remembers the matches of a condition with `count` or `stalled`, by process, cgroup or host.
// For each key the newest `most_exact` matches are kept one by one. Older matches that are still within the window are
// added up in pieces. A piece covers a 64th of the window, and leaves the window together with its first match. So a
// count above most_exact is reached at most a 64th of the window too late, and never too early. Bounded: KeyedMemory
// limits the keys, and `most_remembered` the matches of all keys together; when there are more, the user with the most
// loses some.
#pragma once

#include "rules/engine/engine.h"
#include "rules/engine/keyed_memory.h"

namespace incident::rules {

// The key of a process, a cgroup or the host; it points into the process or into itself.
class TallyKey {
public:
    TallyKey(TallyBy by, const ProcessFacts &process);
    std::string_view text() const {
        return cgroup_ != nullptr ? std::string_view(*cgroup_) : std::string_view(bytes_, size_);
    }
    std::uint32_t user() const { return user_; } // of whose share of the memory it is

private:
    char bytes_[sizeof(std::uint32_t) + sizeof(std::uint64_t)];
    std::size_t size_ = 0;
    const std::string *cgroup_ = nullptr;
    std::uint32_t user_ = 0; // the host's is root's
};

class TallyMemory {
public:
    static constexpr std::size_t most_exact = most_matches;  // for one key
    static constexpr std::size_t most_remembered = 1u << 18; // for all keys: 4 MiB, and as much again in reserve
    static constexpr std::uint64_t pieces = 64;              // in one window

    struct Answer {
        bool reached = false;
        std::uint64_t count = 0, value = 0; // within the window
    };

    // Adds one match. Matches of several CPUs may come out of order; one that is older than the window is not counted.
    // keep_ns: how much longer than the window collect() is to find the matches, whatever other keys do.
    Answer add(const Tally &tally, const TallyKey &key, std::uint64_t t_ns, std::uint64_t value,
               std::uint64_t keep_ns = 0);

    // The matches within the window: the newest ones in order of time, and the sums over all.
    void collect(std::string_view key, std::size_t condition, Decision &out);

    // The key's tally starts again from zero.
    void restart(std::string_view key);

    std::uint64_t forgotten() const { return entries_.forgotten(); }

private:
    struct Piece {
        std::uint64_t first_ns = 0, count = 0, value = 0;
    };
    struct Match {
        std::uint64_t t_ns, value;
    };
    struct Entry {
        std::vector<Match> exact; // valid from `begin` on; in order of time
        std::size_t begin = 0;
        std::vector<Piece> pieces; // oldest first
        std::uint64_t count = 0, value = 0, latest_ns = 0;
        std::uint32_t user = 0;
        std::size_t size() const { return exact.size() - begin; }
    };

    void expire(Entry &entry, std::uint64_t window);
    void pop_oldest(Entry &entry);
    void insert(Entry &entry, std::uint64_t window, Match match);
    void make_room(std::uint64_t now, std::uint64_t kept_ns);

    KeyedMemory<Entry> entries_;
    UserWeights remembered_; // exact matches over all keys
};

} // namespace incident::rules
