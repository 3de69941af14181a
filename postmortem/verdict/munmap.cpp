#include "postmortem/verdict/munmap.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::postmortem {

namespace {

struct Range {
    std::uint64_t start = 0, length = 0;
    bool holds(std::uint64_t address) const { return address >= start && address - start < length; }
};

// The kernel deals in whole pages.
std::optional<Range> range_of(std::optional<std::uint64_t> start, std::optional<std::uint64_t> length) {
    constexpr std::uint64_t page = 4096;
    if (!start || !length || *length > UINT64_MAX - page)
        return std::nullopt;
    return Range{*start, (*length + page - 1) / page * page};
}

} // namespace

std::optional<Munmap> munmap_of(const Evidence &evidence, std::uint64_t address) {
    std::optional<Munmap> last;
    bool mapped = false;
    const std::int64_t trigger = evidence.incident.trigger_ns().value_or(0);
    (void)evidence.bundle.lines("timeline.jsonl", [&](std::string_view line) {
        constexpr std::string_view names[] = {"\"mmap\"", "\"mmap2\"", "\"munmap\"", "\"mremap\""};
        if (std::ranges::none_of(names, [&](std::string_view name) { return line.find(name) != line.npos; }))
            return true; // most lines: not worth a parser
        const auto parsed = parse_json(line);
        if (!parsed)
            return true;
        const JsonView event(*parsed);
        const std::string_view name = event["name"].text();
        const std::int64_t at = event["t_ns"].integer().value_or(0), ret = event["ret"].integer().value_or(-1);
        const auto first = event["args"].at(0).natural(), length = event["args"].at(1).natural();
        const bool failed = ret < 0;
        if (at > trigger || failed)
            return true;
        if (name == "mmap" || name == "mmap2") { // of a 32-bit process
            const auto made = range_of(static_cast<std::uint64_t>(ret), length);
            mapped = mapped || (made && made->holds(address));
            return true;
        }
        const auto range = range_of(first, length);
        if (!range || !range->holds(address))
            return true;
        if (name == "munmap")
            last =
                Munmap{fmt::format("thread {} called munmap() of {:#x}-{:#x} {:.3f} ms before", event["tid"].count(),
                                   range->start, range->start + range->length, static_cast<double>(trigger - at) / 1e6),
                       mapped};
        else if (name == "mremap" && last)
            last->was_mapped = false; // moved away, or not: it is mremap() that was last
        if (name == "munmap" || name == "mremap")
            mapped = false;
        return true;
    });
    return last;
}

} // namespace incident::postmortem
