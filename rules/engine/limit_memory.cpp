#include "rules/engine/limit_memory.h"

#include "rules/model/units.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace incident::rules {
namespace {

constexpr std::uint64_t hour_ns = 3'600'000'000'000;

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

} // namespace

LimitMemory::Answer LimitMemory::ask(const Limit &limit, const std::string &key, std::uint64_t t_ns) {
    Entry &known = entry(key);
    const std::uint64_t now = known.times.empty() ? t_ns : std::max(t_ns, known.times.back());
    if (limit.per_hour) {
        const auto recent = std::find_if(known.times.begin(), known.times.end(),
                                         [&](std::uint64_t time) { return now - time < hour_ns; });
        times_ -= static_cast<std::size_t>(recent - known.times.begin());
        // The last time stays for the cooldown, which may be longer than an hour.
        const bool keep_last = recent == known.times.end() && !known.times.empty() && limit.cooldown.count() > 0 &&
                               now - known.times.back() < static_cast<std::uint64_t>(limit.cooldown.count());
        times_ += keep_last;
        known.times.erase(known.times.begin(), keep_last ? recent - 1 : recent);
    }
    if (std::string held = held_by_limit(limit, known.times, now); !held.empty()) {
        ++known.suppressed;
        return {std::move(held), 0};
    }
    const Answer fire{.suppressed_before = std::exchange(known.suppressed, 0)};
    remember(limit, known, now);
    return fire;
}

LimitMemory::Entry &LimitMemory::entry(const std::string &key) {
    if (const auto found = index_.find(key); found != index_.end()) {
        entries_.splice(entries_.begin(), entries_, found->second);
        return entries_.front();
    }
    if (entries_.size() == most_keys)
        forget_last();
    entries_.push_front({.key = key});
    index_[key] = entries_.begin();
    return entries_.front();
}

void LimitMemory::remember(const Limit &limit, Entry &entry, std::uint64_t now) {
    if (!limit.per_hour) { // the cooldown needs only the last
        times_ -= entry.times.size();
        entry.times.clear();
    }
    entry.times.push_back(now);
    ++times_;
    while (times_ > most_times && entries_.size() > 1)
        forget_last();
}

void LimitMemory::forget_last() {
    times_ -= entries_.back().times.size();
    index_.erase(entries_.back().key);
    entries_.pop_back();
    ++forgotten_;
}

} // namespace incident::rules
