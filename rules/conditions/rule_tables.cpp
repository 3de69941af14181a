#include "rules/conditions/condition_tables.h"
#include "rules/text/signals.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

using std::chrono::hours;

constexpr Nanoseconds longest_cooldown = hours(24 * 30);
constexpr std::uint32_t most_per_hour = 10000;    // bounds what limits remember
constexpr std::uint32_t most_payload_bytes = 128; // PAYLOAD_MAX in bpf/event.h
constexpr std::uint32_t most_stack_bytes = 256 * 1024;

} // namespace

void read_match(TableReader &rule, const std::string &where, const UidLookup &uid_of, Match &out) {
    const Node *node = rule.table("match", R"(match = { exe = ["/usr/bin/*"] })");
    if (node == nullptr)
        return;
    TableReader table(*node, "'match' of " + where, rule.broken(), rule.report());
    read_patterns(table, "unit", out.unit);
    read_patterns(table, "exe", out.exe);
    read_patterns(table, "comm", out.comm);
    read_patterns(table, "cgroup", out.cgroup);
    read_uids(table, "uid", uid_of, out.uid);
    table.belongs_elsewhere("user", "users go into 'uid', by number or name");
    table.belongs_elsewhere("path", "the path of the executable is 'exe'");
    table.report_unknown();
}

void read_limit(TableReader &rule, const std::string &where, Limit &out) {
    const Node *node = rule.table("limit", R"(limit = { cooldown = "10s", per_hour = 20, by = "exe" })");
    if (node == nullptr)
        return;
    TableReader table(*node, "'limit' of " + where, rule.broken(), rule.report());
    table.duration("cooldown", Nanoseconds(0), longest_cooldown, out.cooldown);
    if (const Node *per_hour = table.find("per_hour")) {
        if (per_hour->kind == Node::Kind::Integer && per_hour->integer == 0) {
            table.error(*per_hour, "'per_hour' = 0 would never let the rule fire",
                        "enabled = false turns a rule off; without 'per_hour' there is no limit");
        } else {
            std::uint32_t count = 0;
            table.integer("per_hour", 1u, most_per_hour, count);
            if (count > 0)
                out.per_hour = count;
        }
    }
    table.one_of("by", limit_by_words, out.by);
    table.report_unknown();
}

void read_context(TableReader &rule, const std::string &where, Context &out) {
    const Node *node = rule.table("context", R"(context = { stack = "64KiB", environ = true })");
    if (node == nullptr)
        return;
    TableReader table(*node, "'context' of " + where, rule.broken(), rule.report());
    table.size("stack", 0u, most_stack_bytes, out.stack_bytes);
    table.boolean("files", out.files);
    table.boolean("memory", out.memory);
    table.boolean("host", out.host);
    table.boolean("environ", out.environ);
    table.one_of("allocations", allocations_words, out.allocations);
    table.integer("payload", 0u, most_payload_bytes, out.payload);
    read_patterns(table, "logs", out.logs);
    table.report_unknown();
}

// dump = "SIGABRT", or a table.
void read_dump(TableReader &rule, const std::string &where, bool allowed, std::optional<Dump> &out) {
    const Node *node = rule.find("dump");
    if (node == nullptr)
        return;
    const Node *signal = node;
    Dump dump;
    if (node->kind == Node::Kind::Table) {
        TableReader table(*node, "'dump' of " + where, rule.broken(), rule.report());
        signal = table.require("signal", R"(add signal = "SIGABRT")");
        table.boolean("dry_run", dump.dry_run);
        table.report_unknown();
    } else if (node->kind != Node::Kind::String && node->kind != Node::Kind::Integer) {
        rule.error(*node, fmt::format("'dump' must be a signal or a table, found {}", kind_text(node->kind)),
                   R"(write dump = "SIGABRT", or dump = { signal = "SIGABRT", dry_run = true })");
        return;
    }
    const auto number = signal != nullptr ? read_signal(rule, *signal, "dump") : std::nullopt;
    if (!number)
        return;
    if (!dumps_core_by_default(*number)) {
        rule.error(
            *signal, fmt::format("{} does not make a process dump core", signal_name(*number)),
            "those that do: SIGABRT, SIGQUIT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ");
        return;
    }
    if (!allowed && !dump.dry_run)
        rule.report().warning(
            node->key, "'dump' has no effect: [safety] allow_dump is not on",
            "set allow_dump = true in incidentd.toml, or dry_run = true here to see what it would do");
    dump.signal = *number;
    out = dump;
}

} // namespace incident::rules
