#include "rules/engine/memory_samples.h"

#include <algorithm>

namespace incident::rules {
namespace {

// A process is sampled every few seconds: one without samples for so long is gone.
constexpr std::uint64_t gone_after_ns = 600'000'000'000;

} // namespace

void MemorySamples::push(Entry &entry, Sample sample, std::uint64_t within) {
    std::vector<Sample> &rising = entry.rising;
    while (!rising.empty() && rising.back().rss >= sample.rss)
        rising.pop_back();
    rising.push_back(sample);
    const auto young =
        std::find_if(rising.begin(), rising.end(), [&](const Sample &old) { return sample.t_ns - old.t_ns <= within; });
    rising.erase(rising.begin(), young);
    if (rising.size() <= most_samples)
        return;
    // Every second one but the first and the last: later the lowest may be taken a little
    // too high, so growth a little too small, never too large.
    std::vector<Sample> thinned;
    for (std::size_t i = 0; i < rising.size(); ++i)
        if (i % 2 == 0 || i + 1 == rising.size())
            thinned.push_back(rising[i]);
    rising = std::move(thinned);
}

MemorySamples::Answer MemorySamples::add(const MemoryCondition &condition, const TallyKey &key, std::uint64_t t_ns,
                                         std::uint64_t rss, std::uint64_t keep_ns) {
    Entry &entry = entries_.at(key.text(), key.user());
    if (!entry.rising.empty())
        t_ns = std::max(t_ns, entry.rising.back().t_ns);
    push(entry, {t_ns, rss}, static_cast<std::uint64_t>(condition.within.count()));
    const std::uint64_t kept_ns = static_cast<std::uint64_t>(condition.within.count()) + keep_ns + gone_after_ns;
    entries_.tidy([&](const Entry &old) { return old.rising.back().t_ns + kept_ns < t_ns; });
    Answer answer{.grown = rss - entry.rising.front().rss};
    answer.holds = (!condition.rss_above || rss > *condition.rss_above) &&
                   (!condition.growth || answer.grown >= *condition.growth);
    answer.began = answer.holds && !entry.held;
    entry.held = answer.holds;
    return answer;
}

bool MemorySamples::collect(std::string_view key, std::size_t condition, std::uint64_t t_ns, Decision &out) {
    const Entry *entry = entries_.find(key);
    if (entry == nullptr || entry->rising.back().t_ns != t_ns)
        return false;
    for (const Sample &sample : entry->rising) {
        out.matches.push_back({sample.t_ns, sample.rss, condition});
        out.value_total += sample.rss;
    }
    out.matches_total += entry->rising.size();
    return true;
}

void MemorySamples::restart(const MemoryCondition &condition, std::string_view key) {
    Entry *entry = entries_.find(key);
    if (entry == nullptr)
        return;
    entry->rising.erase(entry->rising.begin(), entry->rising.end() - 1);
    entry->held = entry->held && !condition.growth; // who is above must fall below first
}

} // namespace incident::rules
