// Remembers one entry for each key (a process, a cgroup, the host). The number of keys is limited: when there is no
// room, the least recently used key is forgotten.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace incident::rules {

// How much later than others an event may come that happened before them on another CPU. An entry is kept this much
// longer than it is needed, so that such an event finds what it would have found in its turn.
inline constexpr std::uint64_t late_at_most_ns = 1'000'000'000;

template <typename Entry, std::size_t most_keys = 4096> class KeyedMemory {
public:
    KeyedMemory() = default;
    KeyedMemory(KeyedMemory &&) noexcept = default; // not copied: the index points into the entries
    KeyedMemory &operator=(KeyedMemory &&) noexcept = default;

    // Marks the key as the most recently used. A new key starts with `Entry{}`. If an old entry has to make room,
    // `forgets` is called with it.
    template <typename Forgets> Entry &at(std::string_view key, Forgets forgets) {
        if (Entry *known = find(key))
            return *known;
        if (entries_.size() == most_keys) {
            forgets(entries_.back().second);
            drop_oldest();
            ++forgotten_;
        }
        entries_.emplace_front(std::string(key), Entry{});
        index_.emplace(entries_.front().first, entries_.begin());
        return entries_.front().second;
    }

    Entry &at(std::string_view key) {
        return at(key, [](const Entry &) {});
    }

    // Returns nullptr if the key is unknown. Otherwise marks it as the most recently used.
    Entry *find(std::string_view key) {
        const auto found = index_.find(key);
        if (found == index_.end())
            return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        return &entries_.front().second;
    }

    void erase(std::string_view key) {
        const auto found = index_.find(key);
        if (found == index_.end())
            return;
        const auto entry = found->second;
        index_.erase(found); // its key is a view of the entry's
        entries_.erase(entry);
    }

    // Drops entries that have no more use; they do not count as forgotten. Only a few are dropped each time, so that no
    // single event pays for many.
    template <typename Useless> void tidy(Useless useless) {
        for (int i = 0; i < 2 && entries_.size() > 1 && useless(entries_.back().second); ++i)
            drop_oldest();
    }

    // Drops the least recently used key, but never the only one.
    bool forget_one() {
        if (entries_.size() < 2)
            return false;
        drop_oldest();
        ++forgotten_;
        return true;
    }

    const Entry &oldest() const { return entries_.back().second; }
    std::size_t size() const { return entries_.size(); }
    std::uint64_t forgotten() const { return forgotten_; }
    auto begin() const { return entries_.begin(); } // most recently used first
    auto end() const { return entries_.end(); }

private:
    void drop_oldest() {
        index_.erase(entries_.back().first);
        entries_.pop_back();
    }

    using List = std::list<std::pair<std::string, Entry>>;
    List entries_;
    std::unordered_map<std::string_view, typename List::iterator> index_; // the keys are views of those in entries_
    std::uint64_t forgotten_ = 0;
};

} // namespace incident::rules
