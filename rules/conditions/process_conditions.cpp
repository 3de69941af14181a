// The keys of on = "blocked", "memory" and "exit": things that a process does or that
// happen to it.
#include "rules/conditions/condition_tables.h"
#include "rules/text/escape.h"
#include "rules/text/signals.h"

#include <charconv>
#include <fmt/format.h>

namespace incident::rules {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t least_memory = 64 * 1024; // below it RSS is the counters' own error
constexpr std::uint64_t most_memory = 64ull << 40;
constexpr std::int64_t last_status = 255;
constexpr const char *status_forms = R"(exit statuses are written 3, "1-127" or "nonzero")";

struct Range {
    std::int64_t first, last;
};

std::optional<Range> range_of(std::string_view text) {
    Range range{};
    const char *end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, range.first);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-')
        return std::nullopt;
    const auto last = std::from_chars(first.ptr + 1, end, range.last);
    if (last.ec != std::errc() || last.ptr != end || range.first < 0 || range.last < 0)
        return std::nullopt;
    return range;
}

std::optional<Range> read_status(TableReader &table, const Node &item) {
    std::optional<Range> range;
    if (item.kind == Node::Kind::Integer)
        range = Range{item.integer, item.integer};
    else if (item.kind != Node::Kind::String)
        table.error(item, fmt::format("'status' must be exit statuses, found {}", kind_text(item.kind)), status_forms);
    else if (item.string == "nonzero")
        range = Range{1, last_status};
    else if (range = range_of(item.string); !range)
        table.error(item, fmt::format("{} is no range of exit statuses", quote(item.string)), status_forms);
    if (!range)
        return std::nullopt;
    if (range->first < 0 || range->last > last_status) {
        table.error(item,
                    fmt::format("'status' must be 0 to {}, found {}", last_status,
                                range->first < 0 ? range->first : range->last),
                    "a death by signal is no exit status: 'signals' names these");
        return std::nullopt;
    }
    if (range->first > range->last) {
        table.error(item, fmt::format("the range {} is empty", quote(item.string)),
                    fmt::format("write \"{}-{}\"", range->last, range->first));
        return std::nullopt;
    }
    return range;
}

} // namespace

void read_kind(const ConditionTable &in, BlockedCondition &out) {
    read_threshold(in.table, milliseconds(1), out.when, out.threshold);
    in.table.boolean("idle", out.idle);
}

void read_kind(const ConditionTable &in, MemoryCondition &out) {
    TableReader &table = in.table;
    const Node *above = table.find("rss_above"), *growth = table.find("growth"), *within = table.find("within");
    const auto bytes = [&](const std::string &key) {
        std::uint64_t value = 0;
        table.size(key, least_memory, most_memory, value);
        return value > 0 ? std::optional(value) : std::nullopt;
    };
    out.rss_above = bytes("rss_above");
    out.growth = bytes("growth");
    table.duration("within", seconds(1), hours(24), out.within);
    if (above == nullptr && growth == nullptr && !table.broken())
        table.report().error(table.node().at, fmt::format("{} says neither 'rss_above' nor 'growth'", in.where),
                             R"(add rss_above = "2GiB", or growth = "100MiB" and within = "1m")");
    else if (growth != nullptr && within == nullptr && !table.broken())
        table.report().error(growth->key, "'growth' needs a 'within'", R"(add within = "1m")");
    else if (growth == nullptr && within != nullptr)
        table.report().error(within->key, "'within' has no effect without 'growth'", R"(add growth = "100MiB")");
}

void read_kind(const ConditionTable &in, ExitCondition &out) {
    TableReader &table = in.table;
    for (const Node *item : table.values("status"))
        if (const auto range = read_status(table, *item))
            for (std::int64_t status = range->first; status <= range->last; ++status)
                out.status.set(static_cast<std::size_t>(status));
    for (const auto &[item, number] : read_signals(table, "signals")) {
        if (!kills_by_default(number))
            table.error(*item, fmt::format("{} never ends a process", signal_name(number)));
        out.signals.set(static_cast<std::size_t>(number));
    }
    if (table.find("status") == nullptr && table.find("signals") == nullptr)
        out.status.set().reset(0);
}

} // namespace incident::rules
