#include "daemon/write/removal_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace incident::daemon {

namespace {

using User = std::optional<std::uint32_t>;

// What a user, or an executable of hers, holds.
struct Share {
    std::uint64_t bundles = 0, bytes = 0;
};

class Plan {
public:
    Plan(std::span<const StoredBundle> bundles, Excess excess) : by_bytes_(excess.bundles == 0) {
        std::vector<const StoredBundle *> newest_first;
        newest_first.reserve(bundles.size());
        for (const StoredBundle &bundle : bundles)
            newest_first.push_back(&bundle);
        std::ranges::sort(newest_first, std::greater{}, &StoredBundle::name);
        std::map<User, std::set<std::string_view>> signatures;
        for (const StoredBundle *bundle : newest_first) {
            auto &seen = signatures[bundle->uid];
            const bool spared =
                !bundle->signature.empty() && seen.size() < signatures_spared && seen.insert(bundle->signature).second;
            for (Share *share : {&users_[bundle->uid], &executables_[bundle->uid][bundle->exe]}) {
                ++share->bundles;
                share->bytes += bundle->bytes;
            }
            if (!bundle->stays)
                (spared ? spared_ : others_)[bundle->uid][bundle->exe].push_back(bundle);
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

    std::uint64_t weight(const Share &share) const { return by_bytes_ ? share.bytes : share.bundles; }

    const StoredBundle *take(Candidates &candidates) {
        if (candidates.empty())
            return nullptr;
        const auto user =
            std::ranges::max_element(candidates, {}, [this](const auto &of) { return weight(users_.at(of.first)); });
        auto &mine = executables_.at(user->first);
        const auto exe =
            std::ranges::max_element(user->second, {}, [&](const auto &of) { return weight(mine.at(of.first)); });
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
