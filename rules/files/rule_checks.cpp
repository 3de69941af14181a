// Checks that need the whole rule.
#include "rules/conditions/kinds.h"
#include "rules/conditions/rule_tables.h"
#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

bool is_txg(const Condition &condition) {
    return std::holds_alternative<TxgCondition>(condition.what);
}

// The table a condition was read from.
const Node &node_of(const TableReader &table, const Rule &rule, std::size_t index) {
    return rule.combine == Combine::One ? table.node() : table.node().find("condition")->items[index];
}

// A rule by host, or with nothing but such conditions, fires for nobody in particular.
bool about_host(const Rule &rule) {
    return std::all_of(rule.conditions.begin(), rule.conditions.end(), of_host);
}

void check_match(TableReader &table, const Rule &rule) {
    if (rule.match.everything())
        return;
    const Span match = table.node().find("match")->key;
    if (rule.combine == Combine::One && is_txg(rule.conditions[0]))
        table.report().error(match, "'match' never holds with on = \"txg_sync\": a pool is synced by the host",
                             "'pool' says which pools are meant");
    if (rule.combine == Combine::All && about_host(rule))
        table.report().error(match, "'match' never holds: every condition is of the host",
                             "leave it out, or give one of them by = \"process\"");
    for (std::size_t i = 0; rule.combine == Combine::Any && i < rule.conditions.size(); ++i)
        if (is_txg(rule.conditions[i]))
            table.error(node_of(table, rule, i),
                        "this condition never matches: a pool is synced by the host, and 'match' is about processes",
                        "make it a rule of its own");
}

void check_limit(TableReader &table, Rule &rule) {
    const Node *limit = table.node().find("limit");
    const Node *by = limit != nullptr ? limit->find("by") : nullptr;
    if (!about_host(rule))
        return;
    if (by == nullptr)
        rule.limit.by = LimitBy::Rule;
    else if (rule.limit.by != LimitBy::Rule)
        table.error(*by,
                    fmt::format("a firing of the host is no {}'s: this limit can only be by = \"rule\"", by->string),
                    "leave 'by' out");
}

bool names_some(const std::vector<std::string> &patterns) {
    return !patterns.empty() && std::ranges::none_of(patterns, [](const std::string &pattern) {
        return pattern.find_first_not_of('*') == std::string::npos;
    });
}

// Probes on malloc cost on each of its calls: only in programs somebody has named.
void check_allocations(TableReader &table, const Rule &rule) {
    if (rule.context.allocations == Allocations::Pages)
        return;
    const Node &level = *table.node().find("context")->find("allocations");
    if (about_host(rule))
        table.error(
            level,
            fmt::format("'allocations' = {} is of a process, and this rule fires for the host", quote(level.string)),
            rule.combine == Combine::One && !is_txg(rule.conditions[0]) ? "leave it out, or write by = \"process\""
                                                                        : "leave it out");
    else if (!names_some(rule.match.unit) && !names_some(rule.match.exe) && !names_some(rule.match.cgroup))
        table.error(
            level,
            fmt::format("'allocations' = {} puts probes into processes, and 'match' names no unit, exe or cgroup",
                        quote(level.string)),
            "add match = { unit = [\"myapp.service\"] }; \"pages\" is for every process");
}

// What passes through sockets is other people's: only of programs somebody has named.
void check_payload(TableReader &table, const Rule &rule) {
    if (!rule.context.payload)
        return;
    const Node &payload = *table.node().find("context")->find("payload");
    if (about_host(rule))
        table.error(payload, "'payload' is of a process, and this rule fires for the host",
                    rule.combine == Combine::One && !is_txg(rule.conditions[0])
                        ? "leave it out, or write by = \"process\""
                        : "leave it out");
    else if (!names_some(rule.match.unit) && !names_some(rule.match.exe) && !names_some(rule.match.cgroup))
        table.error(payload,
                    "'payload' keeps what processes send and receive, and 'match' names no unit, exe or cgroup",
                    "add match = { unit = [\"myapp.service\"] }");
}

void check_logs(TableReader &table, const Rule &rule) {
    if (!rule.context.logs.empty() && about_host(rule))
        table.error(
            *table.node().find("context")->find("logs"), "'logs' is of a process, and this rule fires for the host",
            rule.combine == Combine::One && !is_txg(rule.conditions[0]) ? "leave it out, or write by = \"process\""
                                                                        : "leave it out");
}

// A bare library name is looked for in the mappings of what `match` names.
void check_library(TableReader &table, const Rule &rule, std::size_t index, const char *key, const ProbePoint &point) {
    if (point.binary.starts_with('/') || !rule.match.everything())
        return;
    const Node &node = node_of(table, rule, index);
    const Node *probe = node.find(key);
    if (probe == nullptr)
        probe = node.find("probe");
    table.error(
        *probe,
        fmt::format("{} is looked for in the processes of 'match', and there is no 'match'", quote(point.binary)),
        "write the library's absolute path, or add match = { exe = [\"/usr/bin/*\"] }");
}

const char *no_dump(const Condition &condition) {
    if (std::holds_alternative<OomCondition>(condition.what))
        return "the kernel is killing the process";
    if (std::holds_alternative<ExitCondition>(condition.what))
        return "the process is ending";
    if (const auto *signal = std::get_if<SignalCondition>(&condition.what); signal != nullptr && signal->fatal)
        return "the process is dying of its signal, and the kernel dumps its core";
    return nullptr;
}

void check_dump(TableReader &table, const Rule &rule) {
    if (!rule.dump)
        return;
    const Span at = table.node().find("dump")->key;
    for (const Condition &condition : rule.conditions)
        if (const char *why = no_dump(condition)) {
            table.report().error(at, fmt::format("'dump' comes too late with on = \"{}\": {}", condition.kind, why),
                                 condition.kind == "signal"
                                     ? "leave it out; with fatal = false it is for signals that do not kill"
                                     : "leave it out: the incident has the process's last moments");
            return;
        }
    const auto host = std::find_if(rule.conditions.begin(), rule.conditions.end(), of_host);
    if (host == rule.conditions.end() || (rule.combine == Combine::All && !about_host(rule)))
        return;
    table.report().error(
        at,
        fmt::format("'dump' with on = \"{}\": a firing of the host says nothing about the process to dump", host->kind),
        is_txg(*host) ? "leave it out" : "leave it out, or write by = \"process\"");
}

} // namespace

void check_together(TableReader &table, Rule &rule) {
    check_match(table, rule);
    check_limit(table, rule);
    check_dump(table, rule);
    check_allocations(table, rule);
    check_payload(table, rule);
    check_logs(table, rule);
    for (std::size_t i = 0; i < rule.conditions.size(); ++i)
        if (const auto *latency = std::get_if<LatencyCondition>(&rule.conditions[i].what)) {
            check_library(table, rule, i, "enter", latency->enter);
            if (latency->leave)
                check_library(table, rule, i, "leave", *latency->leave);
        }
}

} // namespace incident::rules
