// The keys of on = "latency".  The smallest threshold is a microsecond,
// because a pair of probes itself costs about that much and a shorter time cannot be measured.
#include "rules/conditions/condition_tables.h"
#include "rules/conditions/probe_point.h"
#include "rules/toml/toml_document.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

// A probe that is hit less often costs nothing worth detaching it for; beyond the most
// a core does little else.
constexpr std::uint32_t least_rate = 100, most_rate = 10'000'000;

std::optional<ProbePoint> read_probe(TableReader &table, const std::string &key) {
    const Node *node = table.find(key);
    if (node == nullptr || !table.expect(*node, Node::Kind::String, key, probe_forms))
        return std::nullopt;
    auto point = parse_probe(node->string);
    if (point)
        return std::move(*point);
    const ProbeError &error = point.error();
    table.report().error(place_in_string(table.report().source(), *node, error.at, error.length), error.message,
                         error.hint);
    return std::nullopt;
}

// With `probe` alone the end is the function's return.
void check_returns(TableReader &table, const ProbePoint &point) {
    const Node &node = *table.find("probe");
    if (point.kind == ProbePoint::Kind::Usdt)
        table.error(node, "a usdt probe is a point, it does not return",
                    fmt::format("write enter = \"{}\" and leave = the probe at its end", point.text));
    else if (point.offset != 0)
        table.error(node, "a place inside a function does not return",
                    fmt::format("leave the offset out, or write enter = \"{}\" and leave = ...", point.text));
}

} // namespace

void read_kind(const ConditionTable &in, LatencyCondition &out) {
    TableReader &table = in.table;
    const Node *probe = table.find("probe"), *enter = table.find("enter"), *leave = table.find("leave");
    const auto first = read_probe(table, enter != nullptr && probe == nullptr ? "enter" : "probe");
    if (first)
        out.enter = *first;
    if (probe != nullptr && (enter != nullptr || leave != nullptr)) {
        table.report().error((enter != nullptr ? enter : leave)->key,
                             fmt::format("'probe' and '{}' exclude each other", enter != nullptr ? "enter" : "leave"),
                             "'probe' is a function and its return; 'enter' and 'leave' are two places");
    } else if (probe != nullptr) {
        if (first)
            check_returns(table, *first);
    } else if (enter == nullptr && leave == nullptr) {
        table.require("probe", R"(add probe = "uprobe:/path/of/binary:function")");
    } else if (enter == nullptr || leave == nullptr) {
        table.require(enter == nullptr ? "enter" : "leave", "for a function and its return there is 'probe'");
    } else {
        out.leave = read_probe(table, "leave");
        if (first && out.leave && *first == *out.leave)
            table.error(*leave, "'leave' is the same place as 'enter'",
                        "for a function and its return there is 'probe'");
    }
    read_threshold(table, std::chrono::microseconds(1), out.when, out.threshold);
    table.integer("max_rate", least_rate, most_rate, out.max_rate);
}

} // namespace incident::rules
