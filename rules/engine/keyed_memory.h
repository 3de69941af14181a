// Remembers one entry for each key (a process, a cgroup, the host).  The number of keys is limited, and users share it:
// when there is no room, the user with the most keys loses the least recently used one of hers.  So no user makes the
// memory forget what it knows of another one who has fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
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

    // Marks the key as the most recently used.  A new key starts with `Entry{}` and belongs to the user.  If an old
    // entry has to make room, `forgets` is called with it.
    template <typename Forgets> Entry &at(std::string_view key, std::uint32_t user, Forgets forgets) {
        if (Entry *known = find(key))
            return *known;
        if (entries_.size() == most_keys)
            forget_one_of(user_with_most(), forgets);
        entries_.push_front({std::string(key), Entry{}, user, {}});
        auto &own = users_[user];
        own.push_front(entries_.begin());
        entries_.front().of_user = own.begin();
        index_.emplace(entries_.front().key, entries_.begin());
        return entries_.front().entry;
    }

    Entry &at(std::string_view key, std::uint32_t user) {
        return at(key, user, [](const Entry &) {});
    }

    // Returns nullptr if the key is unknown. Otherwise marks it as the most recently used.
    Entry *find(std::string_view key) {
        const auto found = index_.find(key);
        if (found == index_.end())
            return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        auto &own = users_.find(found->second->user)->second;
        own.splice(own.begin(), own, found->second->of_user);
        return &entries_.front().entry;
    }

    void erase(std::string_view key) {
        if (const auto found = index_.find(key); found != index_.end())
            drop(found->second);
    }

    // Drops entries that have no more use; they do not count as forgotten. Only a few are dropped each time, so that no
    // single event pays for many.
    template <typename Useless> void tidy(Useless useless) {
        for (int i = 0; i < 2 && entries_.size() > 1 && useless(entries_.back().entry); ++i)
            drop(std::prev(entries_.end()));
    }

    // Drops the least recently used key of the user, but never the most recently used key of all.  false: she has none.
    template <typename Forgets> bool forget_one_of(std::uint32_t user, Forgets forgets) {
        const auto own = users_.find(user);
        if (own == users_.end() || own->second.back() == entries_.begin())
            return false;
        const auto last = own->second.back();
        forgets(last->entry);
        drop(last);
        ++forgotten_;
        return true;
    }

    std::size_t size() const { return entries_.size(); }
    std::uint64_t forgotten() const { return forgotten_; }

    // Calls `visit` with each key and entry, the most recently used first, until it returns false.
    template <typename Visit> void each(Visit visit) const {
        for (const Item &item : entries_)
            if (!visit(item.key, item.entry))
                return;
    }

private:
    struct Item;
    using List = std::list<Item>;
    using Users = std::unordered_map<std::uint32_t, std::list<typename List::iterator>>; // most recently used first
    struct Item {
        std::string key;
        Entry entry;
        std::uint32_t user;
        typename Users::mapped_type::iterator of_user; // its place there
    };

    // Of users with as many the one with the higher id: root and the system's come last.
    std::uint32_t user_with_most() const {
        std::uint32_t found = 0;
        std::size_t most = 0;
        for (const auto &[user, own] : users_)
            if (own.size() > most || (own.size() == most && user > found)) {
                most = own.size();
                found = user;
            }
        return found;
    }

    void drop(typename List::iterator item) {
        const auto own = users_.find(item->user);
        own->second.erase(item->of_user);
        if (own->second.empty())
            users_.erase(own);
        index_.erase(item->key); // which is a view of the item's
        entries_.erase(item);
    }

    List entries_;
    Users users_;
    std::unordered_map<std::string_view, typename List::iterator> index_; // the keys are views of those in entries_
    std::uint64_t forgotten_ = 0;
};

// How much of something each user has, to find the one who has most.
class UserWeights {
public:
    void add(std::uint32_t user, std::size_t more) {
        if (more == 0)
            return;
        of_[user] += more;
        total_ += more;
    }
    void take(std::uint32_t user, std::size_t less) {
        if (less == 0)
            return;
        const auto own = of_.find(user);
        total_ -= less;
        own->second -= less;
        if (own->second == 0)
            of_.erase(own);
    }
    std::size_t total() const { return total_; }
    // Of users with as much the one with the higher id, as KeyedMemory has it.
    std::uint32_t heaviest() const {
        std::uint32_t found = 0;
        std::size_t most = 0;
        for (const auto &[user, weight] : of_)
            if (weight > most || (weight == most && user > found)) {
                most = weight;
                found = user;
            }
        return found;
    }

private:
    std::unordered_map<std::uint32_t, std::size_t> of_;
    std::size_t total_ = 0;
};

} // namespace incident::rules
