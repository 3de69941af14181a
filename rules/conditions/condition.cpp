// The keys that all kinds of conditions have: how many matches make a firing.
#include "rules/conditions/condition_tables.h"
#include "rules/conditions/kinds.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A million matches: what a busy host makes of one kind in ten seconds.
constexpr std::uint64_t most_matches_counted = 1'000'000;
constexpr Nanoseconds shortest_window = milliseconds(1);

bool is_reclaim(const ConditionKind &what) {
    return std::holds_alternative<ReclaimCondition>(what);
}
bool is_txg(const ConditionKind &what) {
    return std::holds_alternative<TxgCondition>(what);
}

void read_by(TableReader &table, const ConditionKind &what, Tally &out) {
    out.by = is_reclaim(what) || is_txg(what) ? TallyBy::Host : TallyBy::Process;
    table.one_of("by", tally_by_words, out.by);
    if (is_txg(what) && out.by != TallyBy::Host)
        table.error(*table.find("by"), "a pool is synced by the host: 'by' cannot be anything else", "leave 'by' out");
}

// Without a tally, and whatever is wrong with its keys not said already.
void check_reclaim(const ConditionTable &in, const ReclaimCondition &what, const Tally &tally) {
    const Node &node = in.table.node();
    const Node *count = node.find("count");
    const bool plain_one = count != nullptr && count->kind == Node::Kind::Integer && count->integer == 1;
    const bool tallied =
        (count != nullptr && !plain_one) || node.find("stalled") != nullptr || node.find("window") != nullptr;
    if (!tally.each() || tallied || what.slower_than.count() > 0 || node.find("slower_than") != nullptr ||
        in.table.broken())
        return;
    in.table.report().error(
        node.at, "every wait in reclaim would fire " + in.where,
        R"(add count = 1000 and window = "30s", stalled = "900ms" and window, or slower_than = "100ms")");
}

} // namespace

void read_tally(TableReader &table, const std::string &where, const ConditionKind &what, Tally &out) {
    const Node *count = table.find("count"), *window = table.find("window"), *by = table.find("by");
    table.integer<std::uint64_t>("count", 1, most_matches_counted, out.count);
    if (takes_time(what)) {
        table.duration("stalled", microseconds(1), longest_wait, out.stalled);
    } else {
        table.refuse("stalled", fmt::format("'stalled' has no meaning in {}: what it waits for takes no time", where),
                     "'count' counts how often it happens");
    }
    table.duration("window", shortest_window, longest_wait, out.window);
    const Node *stalled = takes_time(what) ? table.find("stalled") : nullptr;
    read_by(table, what, out);

    if (count == nullptr && table.node().find("stalled") == nullptr) {
        if (window != nullptr)
            table.report().error(window->key, "'window' has no effect without 'count' or 'stalled'",
                                 takes_time(what) ? R"(add count = 10, or stalled = "900ms")" : "add count = 10");
        else if (by != nullptr)
            table.report().error(
                by->key, "'by' has no effect without 'count' or 'stalled'",
                "it says over whom matches are added up; limit = { by = ... } is whom a limit holds for");
    } else if (window == nullptr && (out.count > 1 || stalled != nullptr) && !table.broken()) {
        table.report().error((count != nullptr ? count : stalled)->key,
                             fmt::format("'{}' needs a 'window'", count != nullptr ? "count" : "stalled"),
                             R"(add window = "30s")");
    } else if (const Node *useless = stalled != nullptr ? stalled : window;
               useless != nullptr && count != nullptr && count->kind == Node::Kind::Integer && count->integer == 1) {
        table.report().error(useless->key,
                             fmt::format("'{}' has no effect with count = 1: every match is enough",
                                         stalled != nullptr ? "stalled" : "window"),
                             stalled != nullptr ? "leave 'count' out" : "leave it out, or raise 'count'");
    }
    if (out.each()) // whatever is wrong has been said
        out = Tally{.by = is_txg(what) ? TallyBy::Host : TallyBy::Process};
}

void read_threshold(TableReader &table, Nanoseconds least_return, When &when, Nanoseconds &threshold) {
    table.one_of("when", when_words, when);
    const Node *node = table.require("threshold", R"(add threshold = "100ms")");
    table.duration("threshold", least_return, longest_wait, threshold);
    if (when == When::Deadline && threshold.count() > 0 && threshold < least_deadline)
        table.error(
            *node,
            fmt::format("'threshold' must be at least {} with when = \"deadline\"", duration_text(least_deadline)),
            "a shorter one is over before anybody can look: when = \"return\"");
}

std::optional<Nanoseconds> read_duration(TableReader &table, const std::string &key, Nanoseconds least,
                                         Nanoseconds most) {
    Nanoseconds value{0};
    table.duration(key, least, most, value);
    return value.count() > 0 ? std::optional(value) : std::nullopt;
}

void read_condition(const ConditionTable &in, Condition &out) {
    std::visit([&](auto &what) { read_kind(in, what); }, out.what);
    read_tally(in.table, in.where, out.what, out.tally);
    if (const auto *reclaim = std::get_if<ReclaimCondition>(&out.what))
        check_reclaim(in, *reclaim, out.tally);
}

} // namespace incident::rules
