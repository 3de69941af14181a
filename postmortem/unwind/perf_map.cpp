#include "postmortem/unwind/perf_map.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace incident::postmortem {

namespace {

std::optional<std::uint64_t> number(std::string_view &line) {
    if (line.starts_with("0x"))
        line.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
    if (error != std::errc{} || end == line.data() + line.size() || *end != ' ')
        return std::nullopt;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
    return value;
}

std::optional<PerfMap::Entry> map_entry(std::string_view line) {
    PerfMap::Entry entry;
    const auto start = number(line), size = start ? number(line) : std::nullopt;
    if (!size || *size == 0 || *start > UINT64_MAX - *size || line.empty())
        return std::nullopt;
    return PerfMap::Entry{*start, *size, line.substr(0, PerfMap::name_max)};
}

} // namespace

PerfMap::PerfMap(std::string_view text) {
    // From its end: what was written last holds.
    while (!text.empty()) {
        if (text.ends_with('\n'))
            text.remove_suffix(1);
        const std::size_t before = text.rfind('\n');
        const std::string_view line = before == std::string_view::npos ? text : text.substr(before + 1);
        text.remove_suffix(line.size());
        if (line.empty())
            continue;
        if (entries_.size() >= entries_max) {
            cut_ = true;
            break;
        }
        if (const auto entry = map_entry(line))
            entries_.push_back(*entry);
        else
            ++bad_lines_;
    }
    std::ranges::stable_sort(entries_, {}, &Entry::start);
    const auto [first, last] = std::ranges::unique(entries_, {}, &Entry::start);
    entries_.erase(first, last);
}

const PerfMap::Entry *PerfMap::find(std::uint64_t address) const {
    auto it = std::ranges::upper_bound(entries_, address, {}, &Entry::start);
    if (it == entries_.begin())
        return nullptr;
    --it;
    return address - it->start < it->size ? &*it : nullptr;
}

} // namespace incident::postmortem
