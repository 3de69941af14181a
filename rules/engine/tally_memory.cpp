#include "rules/engine/tally_memory.h"

#include "rules/model/user.h"

#include <algorithm>
#include <cstring>

namespace incident::rules {

TallyKey::TallyKey(TallyBy by, const ProcessFacts &process) {
    if (by != TallyBy::Host)
        user_ = user_of(process);
    if (by == TallyBy::Cgroup) {
        cgroup_ = &process.cgroup;
    } else if (by == TallyBy::Process) { // the start time keeps a reused pid apart
        std::memcpy(bytes_, &process.pid, sizeof process.pid);
        std::memcpy(bytes_ + sizeof process.pid, &process.start_boot_ns, sizeof process.start_boot_ns);
        size_ = sizeof bytes_;
    }
}

TallyMemory::Answer TallyMemory::add(const Tally &tally, const TallyKey &key, std::uint64_t t_ns, std::uint64_t value,
                                     std::uint64_t keep_ns) {
    const auto window = static_cast<std::uint64_t>(tally.window.count());
    const auto stalled = static_cast<std::uint64_t>(tally.stalled.count());
    Entry &entry = entries_.at(key.text(), key.user(),
                               [this](const Entry &forgotten) { remembered_.take(forgotten.user, forgotten.size()); });
    entry.user = key.user();
    entry.latest_ns = std::max(entry.latest_ns, t_ns);
    expire(entry, window);
    if (entry.latest_ns - t_ns > window)
        return {false, entry.count, entry.value};
    insert(entry, window, {t_ns, value});
    const Answer answer{(tally.count > 1 && entry.count >= tally.count) || (stalled > 0 && entry.value >= stalled),
                        entry.count, entry.value};
    make_room(entry.latest_ns, window + keep_ns + late_at_most_ns);
    return answer;
}

void TallyMemory::insert(Entry &entry, std::uint64_t window, Match match) {
    auto place = entry.exact.end();
    const auto first = entry.exact.begin() + static_cast<std::ptrdiff_t>(entry.begin);
    while (place != first && (place - 1)->t_ns > match.t_ns)
        --place;
    entry.exact.insert(place, match);
    remembered_.add(entry.user, 1);
    ++entry.count;
    entry.value += match.value;
    if (entry.size() <= most_exact)
        return;
    const Match oldest = entry.exact[entry.begin];
    if (entry.pieces.empty() || oldest.t_ns - std::min(oldest.t_ns, entry.pieces.back().first_ns) > window / pieces)
        entry.pieces.push_back({oldest.t_ns, 0, 0});
    entry.pieces.back().first_ns = std::min(entry.pieces.back().first_ns, oldest.t_ns); // one that came late
    ++entry.pieces.back().count;
    entry.pieces.back().value += oldest.value;
    pop_oldest(entry);
}

void TallyMemory::pop_oldest(Entry &entry) {
    ++entry.begin;
    remembered_.take(entry.user, 1);
    if (entry.begin * 2 > entry.exact.size() || entry.begin > most_exact) { // seldom, so cheap on average
        entry.exact.erase(entry.exact.begin(), entry.exact.begin() + static_cast<std::ptrdiff_t>(entry.begin));
        entry.begin = 0;
    }
}

void TallyMemory::expire(Entry &entry, std::uint64_t window) {
    const auto is_old = [&](std::uint64_t t_ns) { return entry.latest_ns - t_ns > window; };
    const auto old = std::find_if(entry.pieces.begin(), entry.pieces.end(),
                                  [&](const Piece &piece) { return !is_old(piece.first_ns); });
    for (auto piece = entry.pieces.begin(); piece != old; ++piece) {
        entry.count -= piece->count;
        entry.value -= piece->value;
    }
    entry.pieces.erase(entry.pieces.begin(), old);
    while (entry.size() > 0 && is_old(entry.exact[entry.begin].t_ns)) {
        --entry.count;
        entry.value -= entry.exact[entry.begin].value;
        pop_oldest(entry);
    }
    if (entry.exact.capacity() > 64 && entry.exact.size() < entry.exact.capacity() / 4) // a storm has passed
        entry.exact.shrink_to_fit();
}

// The newest entry is the one being counted: it stays.
void TallyMemory::make_room(std::uint64_t now, std::uint64_t kept_ns) {
    const auto forgets = [this](const Entry &entry) { remembered_.take(entry.user, entry.size()); };
    entries_.tidy([&](const Entry &entry) {
        const bool useless = entry.latest_ns + kept_ns < now;
        if (useless)
            forgets(entry);
        return useless;
    });
    while (remembered_.total() > most_remembered && entries_.forget_one_of(remembered_.heaviest(), forgets)) {
    }
}

void TallyMemory::collect(std::string_view key, std::size_t condition, Decision &out) {
    const Entry *entry = entries_.find(key);
    if (entry == nullptr)
        return;
    for (std::size_t i = entry->begin; i < entry->exact.size(); ++i)
        out.matches.push_back({entry->exact[i].t_ns, entry->exact[i].value, condition});
    out.matches_total += entry->count;
    out.value_total += entry->value;
}

void TallyMemory::restart(std::string_view key) {
    if (const Entry *entry = entries_.find(key)) {
        remembered_.take(entry->user, entry->size());
        entries_.erase(key);
    }
}

} // namespace incident::rules
