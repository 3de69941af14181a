#include "daemon/record/pool.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::uint32_t idle_segments = OWN_SEGMENTS; // the kernel side gives every thread as many, if any are left

bool counts(const SegmentHolder &holder) {
    return holder.refused || holder.segments > idle_segments;
}

// The fair part of each holder, by its index.
std::vector<std::uint32_t> fair_parts(const std::vector<SegmentHolder> &holders, std::uint32_t pool) {
    std::map<std::uint32_t, std::map<capture::ProcessRef, std::uint32_t>> users; // → its threads
    for (const SegmentHolder &holder : holders)
        if (counts(holder))
            ++users[holder.user][holder.process];
    std::vector<std::uint32_t> parts;
    for (const SegmentHolder &holder : holders) {
        std::uint64_t divided = 1;
        if (counts(holder)) {
            const auto &processes = users[holder.user];
            divided = users.size() * processes.size() * processes.at(holder.process);
        }
        parts.push_back(std::max(idle_segments, static_cast<std::uint32_t>(pool / divided)));
    }
    return parts;
}

// Indexes of those who were refused more and have less than their part.
std::vector<std::size_t> in_need(const std::vector<SegmentHolder> &holders, const std::vector<std::uint32_t> &parts) {
    std::vector<std::size_t> found;
    for (std::size_t who = 0; who < holders.size(); ++who)
        if (holders[who].refused && holders[who].segments < parts[who])
            found.push_back(who);
    return found;
}

class Takings {
public:
    Takings(const std::vector<SegmentHolder> &holders, std::uint32_t wanted)
        : holders_(holders), taken_(holders.size()), wanted_(wanted) {}

    // Takes oldest first of who has more than keep(index), while their oldest ended before `until`.
    void take(std::uint64_t until, const std::function<std::uint32_t(std::size_t)> &keep) {
        using Oldest = std::pair<std::uint64_t, std::size_t>; // when it ended, whose
        std::priority_queue<Oldest, std::vector<Oldest>, std::greater<>> oldest;
        const auto offer = [&](std::size_t who) {
            const auto &ended = holders_[who].until_ns;
            if (taken_[who] < ended.size() && holders_[who].segments - taken_[who] > keep(who))
                oldest.emplace(ended[taken_[who]], who);
        };
        for (std::size_t who = 0; who < holders_.size(); ++who)
            offer(who);
        while (slots_.size() < wanted_ && !oldest.empty() && oldest.top().first < until) {
            const std::size_t who = oldest.top().second;
            oldest.pop();
            slots_.push_back(holders_[who].slot);
            ++taken_[who];
            offer(who);
        }
    }
    std::vector<std::uint32_t> slots() && { return std::move(slots_); }

private:
    const std::vector<SegmentHolder> &holders_;
    std::vector<std::uint32_t> taken_;
    std::vector<std::uint32_t> slots_;
    std::uint32_t wanted_;
};

} // namespace

bool anybody_in_need(const std::vector<SegmentHolder> &holders, std::uint32_t pool) {
    return !in_need(holders, fair_parts(holders, pool)).empty();
}

PoolPlan plan_pool(const std::vector<SegmentHolder> &holders, std::uint32_t pool, std::uint32_t wanted,
                   std::uint64_t past_ns) {
    const std::vector<std::uint32_t> parts = fair_parts(holders, pool);
    const std::vector<std::size_t> needy = in_need(holders, parts);
    Takings takings(holders, wanted);
    takings.take(past_ns, [](std::size_t) { return 1u; });
    takings.take(~0ull, [&](std::size_t who) { return parts[who]; });
    PoolPlan plan{.takings = std::move(takings).slots(), .grants = {}};
    const std::size_t each = needy.empty() ? 0 : plan.takings.size() / needy.size();
    for (const std::size_t who : needy)
        if (const auto more = std::min<std::size_t>(each, parts[who] - holders[who].segments))
            plan.grants[holders[who].slot] = static_cast<std::uint32_t>(more);
    return plan;
}

} // namespace incident::daemon
