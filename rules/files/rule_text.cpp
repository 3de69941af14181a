#include "rules/files/rule_text.h"

#include "rules/conditions/condition_text.h"
#include "rules/model/units.h"
#include "rules/text/signals.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

std::string conditions_text(const Rule &rule) {
    if (rule.combine == Combine::One) // `on` stands with the name already
        return condition_keys(rule.conditions[0]).lines().substr(fmt::format("on = {}\n", toml(rule.kind)).size());
    std::string out;
    if (rule.combine == Combine::All)
        out = fmt::format("within = {}\n", toml(duration_text(rule.within)));
    out += "condition = [\n";
    for (const Condition &condition : rule.conditions)
        out += fmt::format("    {},\n", condition_keys(condition).inline_table());
    return out + "]\n";
}

std::string dump_text(const Dump &dump) {
    return fmt::format("dump = {{ signal = {}, dry_run = {} }}\n", toml(signal_name(dump.signal)), dump.dry_run);
}

} // namespace

std::string rule_text(const Rule &rule) {
    std::string out =
        fmt::format("[[rule]]\nname = {}\non = {}\nenabled = {}\n", toml(rule.name), toml(rule.kind), rule.enabled);
    out += conditions_text(rule);

    TomlKeys match;
    match.list("unit", rule.match.unit);
    match.list("exe", rule.match.exe);
    match.list("comm", rule.match.comm);
    match.list("cgroup", rule.match.cgroup);
    match.list("uid", rule.match.uid);
    if (!match.empty())
        out += fmt::format("match = {}\n", match.inline_table());

    TomlKeys limit;
    limit.add("cooldown", toml(duration_text(rule.limit.cooldown)));
    if (rule.limit.per_hour)
        limit.add("per_hour", toml(*rule.limit.per_hour));
    limit.add("by", toml(std::string(word_of(limit_by_words, rule.limit.by))));
    out += fmt::format("limit = {}\n", limit.inline_table());

    const Context &context = rule.context;
    out += fmt::format(
        "context = {{ stack = \"{}\", files = {}, memory = {}, host = {}, environ = {}, allocations = {}{}{} }}\n",
        size_text(context.stack_bytes), context.files, context.memory, context.host, context.environ,
        toml(std::string(word_of(allocations_words, context.allocations))),
        context.payload ? fmt::format(", payload = {}", context.payload) : "",
        context.logs.empty() ? "" : ", logs = " + toml(context.logs));
    if (rule.dump)
        out += dump_text(*rule.dump);
    return out;
}

} // namespace incident::rules
