// A queue that users share: they take turns, and each has her own order.  So nobody waits for more than one item of
// each other user before each of her own, however many they have put in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace incident::daemon {

template <typename Item> class FairQueue {
public:
    using User = std::uint32_t; // rules::user_of()

    // weight: what the item takes of that which is scarce, as bytes.
    void push(User user, Item item, std::size_t weight = 0) {
        Own &own = users_[user];
        if (own.items.empty())
            turns_.push_back(user);
        own.items.push_back({std::move(item), weight});
        own.weight += weight;
        weight_ += weight;
        ++size_;
    }

    // The next item; none: it is empty.
    std::optional<Item> pop() {
        if (turns_.empty())
            return std::nullopt;
        const User user = turns_.front();
        turns_.pop_front();
        Own &own = users_.find(user)->second;
        Held next = std::move(own.items.front());
        own.items.pop_front();
        forget(own, next.weight);
        if (own.items.empty())
            users_.erase(user);
        else
            turns_.push_back(user);
        return std::move(next.item);
    }

    // Takes out the newest item with a weight of a user, who has one.
    std::optional<Item> drop_newest(User user) {
        const auto found = users_.find(user);
        if (found == users_.end())
            return std::nullopt;
        Own &own = found->second;
        for (auto held = own.items.rbegin(); held != own.items.rend(); ++held) {
            if (held->weight == 0)
                continue;
            Held dropped = std::move(*held);
            own.items.erase(std::next(held).base());
            forget(own, dropped.weight);
            if (own.items.empty()) {
                std::erase(turns_, user);
                users_.erase(found);
            }
            return std::move(dropped.item);
        }
        return std::nullopt;
    }

    // Of users with as much the one with the higher id: root and the system's come last.
    User heaviest() const {
        User found = 0;
        std::size_t most = 0;
        for (const auto &[user, own] : users_)
            if (own.weight >= most) {
                most = own.weight;
                found = user;
            }
        return found;
    }

    std::size_t weight() const { return weight_; }
    std::size_t weight_of(User user) const {
        const auto found = users_.find(user);
        return found == users_.end() ? 0 : found->second.weight;
    }
    std::size_t users() const { return users_.size(); } // who have something in it
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }

private:
    struct Held {
        Item item;
        std::size_t weight;
    };
    struct Own {
        std::deque<Held> items;
        std::size_t weight = 0;
    };
    void forget(Own &own, std::size_t weight) {
        own.weight -= weight;
        weight_ -= weight;
        --size_;
    }

    std::map<User, Own> users_;
    std::deque<User> turns_; // of those in users_, the next first
    std::size_t weight_ = 0, size_ = 0;
};

} // namespace incident::daemon
