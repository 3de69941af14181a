#include "rules/conditions/rule_tables.h"

#include "rules/conditions/condition_tables.h"
#include "rules/conditions/kinds.h"
#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

// Each is looked at for every event of its kind.
constexpr std::size_t most_conditions = 8;
constexpr const char *example =
    R"(condition = [{ on = "memory", rss_above = "2GiB" }, { on = "reclaim", count = 100, window = "10s" }])";

std::vector<std::string> kinds_with_composites() {
    std::vector<std::string> kinds = condition_kinds();
    kinds.insert(kinds.end(), {"all", "any"});
    return kinds;
}

// The kind that `on` names.  A misspelled one is reported and read as what is meant;
// "" where that is not clear.
std::string read_on(TableReader &table, const char *of, const std::vector<std::string> &kinds) {
    const Node *node = table.require("on", R"(add on = "signal")");
    if (node == nullptr || !table.expect(*node, Node::Kind::String, "on", R"(write on = "signal")"))
        return {};
    if (std::find(kinds.begin(), kinds.end(), node->string) != kinds.end())
        return node->string;
    table.error(*node, fmt::format("unknown kind of {} {}", of, quote(node->string)),
                suggestion(node->string, kinds, "kinds"));
    return nearest(node->string, kinds);
}

void hint_at_other_kinds(TableReader &table) {
    for (const KindKey &key : kind_keys())
        table.belongs_elsewhere(key.key, key.hint);
    table.belongs_elsewhere("within", R"('within' is a key of on = "memory", "all")");
}

void hint_at_tables(TableReader &table) {
    for (const char *key : {"unit", "exe", "comm", "cgroup", "uid"})
        table.belongs_elsewhere(key, fmt::format("'{}' belongs in 'match'", key));
    for (const char *key : {"cooldown", "per_hour"})
        table.belongs_elsewhere(key, fmt::format("'{}' belongs in 'limit'", key));
    for (const char *key : {"stack", "files", "memory", "host", "environ", "allocations", "payload", "logs"})
        table.belongs_elsewhere(key, fmt::format("'{}' belongs in 'context'", key));
    table.belongs_elsewhere("self", "'self' belongs in 'sender'");
}

// One condition of several.
void read_part(const Node &node, const std::string &where, TableReader &rule, const Lookups &lookups, Rule &out) {
    TableReader table(node, where, rule.broken(), rule.report());
    const Node *on = node.find("on");
    if (on != nullptr && on->kind == Node::Kind::String && (on->string == "all" || on->string == "any")) {
        table.error(*on, fmt::format("a condition cannot be on = \"{}\" itself", on->string),
                    "write its conditions into this rule, or into one of their own");
        return;
    }
    Condition condition{.kind = read_on(table, "condition", condition_kinds())};
    const auto what = condition_of_kind(condition.kind);
    if (!what)
        return;
    condition.what = *what;
    read_condition({table, where, lookups}, condition);
    hint_at_other_kinds(table);
    hint_at_tables(table);
    for (const char *key : {"name", "enabled", "match", "limit", "context", "dump", "condition"})
        table.belongs_elsewhere(key, fmt::format("'{}' is the whole rule's: it belongs beside 'condition'", key));
    if (condition.kind == "syscall")
        table.belongs_elsewhere("name", "the system calls are listed in 'syscall'");
    table.report_unknown();
    out.conditions.push_back(std::move(condition));
}

void read_composite(TableReader &rule, const std::string &where, const Lookups &lookups, Rule &out) {
    const bool all = out.kind == "all";
    out.combine = all ? Combine::All : Combine::Any;
    if (all) {
        rule.require("within", R"(add within = "30s")");
        rule.duration("within", std::chrono::milliseconds(1), longest_wait, out.within);
    } else {
        rule.refuse("within", "'within' has no meaning with on = \"any\": one condition is enough", "leave it out");
    }
    hint_at_other_kinds(rule);
    for (const KindKey &key : kind_keys())
        rule.belongs_elsewhere(key.key, fmt::format("'{}' belongs in one of the conditions", key.key));
    for (const char *key : {"count", "stalled", "window", "by"})
        rule.belongs_elsewhere(key, fmt::format("'{}' belongs in one of the conditions", key));
    hint_at_tables(rule);
    rule.belongs_elsewhere("conditions", "write condition = [ ... ], or [[rule.condition]]");

    const Node *list = rule.require("condition", example);
    if (list == nullptr)
        return;
    if (list->kind == Node::Kind::Table) {
        rule.report().error(list->key, "'condition' must be a list of tables, found a table",
                            "conditions are written [[rule.condition]], with two brackets");
        return;
    }
    if (!rule.expect(*list, Node::Kind::Array, "condition", example))
        return;
    if ((list->items.size() < 2 && !rule.broken()) || list->items.size() > most_conditions) {
        rule.report().error(list->key,
                            fmt::format("on = \"{}\" takes 2 to {} conditions, found {}", out.kind, most_conditions,
                                        list->items.size()),
                            list->items.size() == 1 ? "a single one is a rule of its kind" : "");
        return;
    }
    for (std::size_t i = 0; i < list->items.size(); ++i)
        if (const Node &item = list->items[i]; rule.expect(item, Node::Kind::Table, "condition", example))
            read_part(item, fmt::format("condition {} of {}", i + 1, where), rule, lookups, out);
}

} // namespace

bool read_conditions(TableReader &rule, const std::string &where, const Lookups &lookups, Rule &out) {
    out.kind = read_on(rule, "rule", kinds_with_composites());
    if (out.kind == "all" || out.kind == "any") {
        read_composite(rule, where, lookups, out);
        return true;
    }
    const auto what = condition_of_kind(out.kind);
    if (!what)
        return false;
    Condition condition{.kind = out.kind, .what = *what};
    read_condition({rule, where, lookups}, condition);
    out.conditions.push_back(std::move(condition));
    hint_at_other_kinds(rule);
    hint_at_tables(rule);
    rule.belongs_elsewhere("condition", "several conditions are on = \"all\" or on = \"any\"");
    return true;
}

} // namespace incident::rules
