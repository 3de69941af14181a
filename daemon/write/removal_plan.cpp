#include "daemon/write/removal_plan.h"

#include "rules/model/user.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace incident::daemon {

namespace {

// One of 0 to 65535, or a range of 65536; nullopt: no process's.
using User = std::optional<std::uint32_t>;

User user_of(const StoredBundle &bundle) {
    return bundle.uid ? User(rules::user_of(*bundle.uid)) : std::nullopt;
}

// What a user, or an executable of hers, holds.
struct Share {
    std::uint64_t bundles = 0, bytes = 0;
};

// The best of each signature of each user, as far as they are spared.
std::set<const StoredBundle *> best_of(const std::vector<const StoredBundle *> &newest_first) {
    std::map<User, std::map<std::string_view, const StoredBundle *>> best;
    for (const StoredBundle *bundle : newest_first) {
        if (bundle->signature.empty())
            continue;
        auto &signatures = best[user_of(*bundle)];
        const auto known = signatures.find(bundle->signature);
        if (known != signatures.end() && known->second->light && !bundle->light)
            known->second = bundle;
        else if (known == signatures.end() && signatures.size() < signatures_spared)
            signatures.emplace(bundle->signature, bundle);
    }
    std::set<const StoredBundle *> all;
    for (const auto &[user, signatures] : best)
        for (const auto &[signature, bundle] : signatures)
            all.insert(bundle);
    return all;
}

class Plan {
public:
    Plan(std::span<const StoredBundle> bundles, Excess excess) : by_bytes_(excess.bundles == 0) {
        std::vector<const StoredBundle *> newest_first;
        newest_first.reserve(bundles.size());
        for (const StoredBundle &bundle : bundles)
            newest_first.push_back(&bundle);
        std::ranges::sort(newest_first, std::greater{}, &StoredBundle::name);
        const auto best = best_of(newest_first);
        for (const StoredBundle *bundle : newest_first) {
            const User user = user_of(*bundle);
            for (Share *share : {&users_[user], &executables_[user][bundle->exe]}) {
                ++share->bundles;
                share->bytes += bundle->bytes;
            }
            if (!bundle->stays)
                (best.contains(bundle) ? spared_ : others_)[user][bundle->exe].push_back(bundle);
        }
    }

    // Takes the next one to go out of the plan; null: none may.
    const StoredBundle *next(bool spared_too) {
        if (const StoredBundle *bundle = take(others_))
            return bundle;
        return spared_too ? take(spared_) : nullptr;
    }

private:
    using Candidates = std::map<User, std::map<std::string_view, std::vector<const StoredBundle *>>>; // oldest last

    struct Weight {
        std::uint64_t held;
        std::string_view oldest; // of those that may go: of two that hold as much, who has the oldest loses it
        bool operator<(const Weight &other) const {
            return held != other.held ? held < other.held : oldest > other.oldest;
        }
    };

    Weight weight(const Share &share, std::string_view oldest) const {
        return {by_bytes_ ? share.bytes : share.bundles, oldest};
    }

    const StoredBundle *take(Candidates &candidates) {
        if (candidates.empty())
            return nullptr;
        const auto user = std::ranges::max_element(candidates, std::less(), [this](const auto &of) {
            std::string_view oldest = of.second.begin()->second.back()->name;
            for (const auto &[exe, bundles] : of.second)
                oldest = std::min<std::string_view>(oldest, bundles.back()->name);
            return weight(users_.at(of.first), oldest);
        });
        auto &mine = executables_.at(user->first);
        const auto exe = std::ranges::max_element(user->second, std::less(), [&](const auto &of) {
            return weight(mine.at(of.first), of.second.back()->name);
        });
        const StoredBundle *bundle = exe->second.back();
        for (Share *share : {&users_.at(user->first), &mine.at(exe->first)}) {
            --share->bundles;
            share->bytes -= bundle->bytes;
        }
        exe->second.pop_back();
        if (exe->second.empty())
            user->second.erase(exe);
        if (user->second.empty())
            candidates.erase(user);
        return bundle;
    }

    bool by_bytes_; // what is in excess
    std::map<User, Share> users_;
    std::map<User, std::map<std::string_view, Share>> executables_;
    Candidates others_, spared_;
};

} // namespace

Removal plan_removal(std::span<const StoredBundle> bundles, Excess excess, Floor floor) {
    Removal removal;
    Plan plan(bundles, excess);
    while (removal.names.size() < excess.bundles || removal.bytes < excess.bytes) {
        const bool at_floor = bundles.size() - removal.names.size() <= floor.bundles;
        if (at_floor && !floor.duplicates_go)
            break;
        const StoredBundle *bundle = plan.next(!at_floor);
        if (bundle == nullptr)
            break;
        removal.names.push_back(bundle->name);
        removal.bytes += bundle->bytes;
    }
    return removal;
}

} // namespace incident::daemon
