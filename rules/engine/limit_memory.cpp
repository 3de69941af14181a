#include "rules/engine/limit_memory.h"

#include "rules/model/units.h"
#include "rules/model/user.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

namespace incident::rules {
namespace {

constexpr std::uint64_t minute_ns = 60'000'000'000, hour_ns = 60 * minute_ns;

std::string held_by_limit(const Limit &limit, const std::vector<std::uint64_t> &times, std::uint64_t now) {
    if (times.empty())
        return {};
    const auto cooldown = static_cast<std::uint64_t>(limit.cooldown.count());
    if (const std::uint64_t since = now - times.back(); since < cooldown)
        return fmt::format("limit.cooldown: {} after the last firing, less than {}",
                           about_text(Nanoseconds(static_cast<std::int64_t>(since))), duration_text(limit.cooldown));
    if (limit.per_hour && times.size() >= *limit.per_hour)
        return fmt::format("limit.per_hour: fired {} times within the last hour, the limit is {}", times.size(),
                           *limit.per_hour);
    return {};
}

std::uint64_t of_entry(const auto &entry) {
    std::uint64_t sum = 0;
    for (const auto &firings : entry.of_ids)
        sum += firings.times.size();
    return sum;
}

} // namespace

LimitMemory::Answer LimitMemory::ask(const Limit &limit, const std::string &key, std::optional<std::uint32_t> uid,
                                     std::uint64_t t_ns) {
    const std::uint32_t user = uid ? user_of(*uid) : 0;
    const auto forgets = [this](const Entry &entry) { times_.take(entry.user, of_entry(entry)); };
    Entry &entry = entries_.at(uid ? fmt::format("{} {}", user, key) : key, user, forgets);
    entry.user = user;
    Firings &known = firings(limit, entry, uid, t_ns);
    const std::uint64_t now = known.times.empty() ? t_ns : std::max(t_ns, known.times.back());
    expire(limit, user, known, now);
    std::string held = held_by_limit(limit, known.times, now);
    Together *together = limit.per_hour && uid ? &together_.at(key, user) : nullptr;
    if (together && held.empty() && !known.times.empty() && now - known.times.back() < hour_ns)
        if (const std::uint64_t count = together->count(now), most = users_together * *limit.per_hour; count >= most)
            held = fmt::format("limit.per_hour: fired {} times for all users within the last hour, the limit for them "
                               "together is {}",
                               count, most);
    if (!held.empty()) {
        ++known.suppressed;
        return {std::move(held), 0};
    }
    const Answer fire{.suppressed_before = std::exchange(known.suppressed, 0)};
    if (together) {
        together->count(now);
        ++together->by_minute[now / minute_ns % together->by_minute.size()];
    }
    remember(limit, user, known, now);
    while (times_.total() > most_times && entries_.forget_one_of(times_.heaviest(), forgets)) {
    }
    return fire;
}

// What counts for this user id.  If too many ids of the user have fired lately, the next ones share a limit.
LimitMemory::Firings &LimitMemory::firings(const Limit &limit, Entry &entry, std::optional<std::uint32_t> uid,
                                           std::uint64_t t_ns) {
    const auto of = [&](std::optional<std::uint32_t> id) { return std::ranges::find(entry.of_ids, id, &Firings::uid); };
    if (const auto known = of(uid); known != entry.of_ids.end())
        return *known;
    if (entry.of_ids.size() < most_ids)
        return entry.of_ids.emplace_back(Firings{uid});
    const auto lasts = std::max(hour_ns, static_cast<std::uint64_t>(limit.cooldown.count()));
    for (Firings &other : entry.of_ids)
        if (other.uid && other.suppressed == 0 && other.times.back() + lasts <= t_ns) {
            times_.take(entry.user, other.times.size());
            other = {uid};
            return other;
        }
    if (const auto shared = of(std::nullopt); shared != entry.of_ids.end())
        return *shared;
    return entry.of_ids.emplace_back(Firings{std::nullopt});
}

void LimitMemory::expire(const Limit &limit, std::uint32_t user, Firings &known, std::uint64_t now) {
    if (!limit.per_hour)
        return;
    auto recent =
        std::find_if(known.times.begin(), known.times.end(), [&](std::uint64_t time) { return now - time < hour_ns; });
    // The last time stays for the cooldown, which may be longer than an hour.
    if (recent == known.times.end() && !known.times.empty() && limit.cooldown.count() > 0 &&
        now - known.times.back() < static_cast<std::uint64_t>(limit.cooldown.count()))
        --recent;
    times_.take(user, static_cast<std::size_t>(recent - known.times.begin()));
    known.times.erase(known.times.begin(), recent);
}

void LimitMemory::remember(const Limit &limit, std::uint32_t user, Firings &known, std::uint64_t now) {
    if (!limit.per_hour) { // the cooldown needs only the last
        times_.take(user, known.times.size());
        known.times.clear();
    }
    known.times.push_back(now);
    times_.add(user, 1);
}

// Minutes that have left the hour are emptied.
std::uint64_t LimitMemory::Together::count(std::uint64_t now_ns) {
    const std::uint64_t now = now_ns / minute_ns;
    for (std::uint64_t passed = newest + 1; passed <= now && passed <= newest + by_minute.size(); ++passed)
        by_minute[passed % by_minute.size()] = 0;
    newest = std::max(newest, now);
    return std::accumulate(by_minute.begin(), by_minute.end(), std::uint64_t{0});
}

} // namespace incident::rules
