// The keys of a rule with on = "signal".
#include "rules/conditions/condition_tables.h"
#include "rules/text/escape.h"
#include "rules/text/signals.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>

namespace incident::rules {
namespace {

// Those whose default action dumps core, but SIGQUIT, SIGXCPU and SIGXFSZ: a
// user or a limit asks for these, a defect makes the others.
constexpr int default_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};

std::string signal_hint(const std::string &name) {
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
        return fmt::format("write {} without quotes", name);
    if (name.starts_with("SIGRT") || name.starts_with("RT"))
        return fmt::format("real-time signals are SIGRTMIN, SIGRTMIN+1 to SIGRTMIN+{}", SIGRTMAX - SIGRTMIN);
    for (const std::string &written : {name, "SIG" + name})
        if (const std::string near = nearest(written, signal_names()); !near.empty())
            return fmt::format("did you mean '{}'?", near);
    return "'kill -l' lists the signals";
}

// Signals that cannot do what the rule waits for.
void check_possible(TableReader &rule, const std::vector<ListedSignal> &listed, bool fatal) {
    const bool some_kill =
        std::any_of(listed.begin(), listed.end(), [](const ListedSignal &l) { return kills_by_default(l.number); });
    for (const auto &[item, number] : listed) {
        if (!fatal && number == SIGKILL)
            rule.error(*item, "SIGKILL cannot be handled or ignored: it needs fatal = true",
                       "leave 'fatal' out, or SIGKILL");
        if (fatal && !kills_by_default(number)) {
            const std::string message =
                fmt::format("{} never ends a process, this rule waits for one that does", signal_name(number));
            const std::string hint = "with fatal = false the rule fires whether it kills or not";
            if (some_kill)
                rule.report().warning(item->at, message, hint);
            else
                rule.error(*item, message, hint);
        }
    }
}

void read_sender(TableReader &rule, const std::string &where, const UidLookup &uid_of, SenderFilter &out) {
    const Node *node = rule.table("sender", R"(sender = { comm = ["kill"], self = false })");
    if (node == nullptr)
        return;
    TableReader table(*node, "\'sender\' of " + where, rule.broken(), rule.report());
    read_patterns(table, "comm", out.comm);
    read_uids(table, "uid", uid_of, out.uid);
    table.boolean("self", out.self);
    for (const char *key : {"comm", "uid"})
        if (const Node *filter = node->find(key); filter != nullptr && out.self && *out.self)
            table.report().error(filter->key, fmt::format("sender.{} and sender.self = true exclude each other", key),
                                 fmt::format("the sender is the process itself: use 'match' with '{}'", key));
    table.report_unknown();
}

} // namespace

std::optional<int> read_signal(TableReader &table, const Node &item, const std::string &key) {
    if (item.kind == Node::Kind::Integer) {
        if (item.integer >= 1 && item.integer <= last_signal)
            return static_cast<int>(item.integer);
        table.error(item, fmt::format("no signal has the number {}", item.integer),
                    fmt::format("signals are 1 to {}", last_signal));
        return std::nullopt;
    }
    if (item.kind != Node::Kind::String) {
        table.error(item, fmt::format("'{}' must be signal names or numbers, found {}", key, kind_text(item.kind)),
                    "signals are written \"SIGSEGV\", \"SEGV\" or 11");
        return std::nullopt;
    }
    if (const auto number = signal_number(item.string))
        return number;
    table.error(item, fmt::format("unknown signal {}", quote(item.string)), signal_hint(item.string));
    return std::nullopt;
}

std::vector<ListedSignal> read_signals(TableReader &table, const std::string &key) {
    std::vector<ListedSignal> listed;
    for (const Node *item : table.values(key)) {
        const auto number = read_signal(table, *item, key);
        if (!number)
            continue;
        const bool again = std::any_of(listed.begin(), listed.end(),
                                       [&](const ListedSignal &other) { return other.number == *number; });
        if (again)
            table.report().warning(item->at, fmt::format("{} is in the list already", signal_name(*number)));
        else
            listed.push_back({item, *number});
    }
    return listed;
}

void read_kind(const ConditionTable &in, SignalCondition &out) {
    TableReader &rule = in.table;
    rule.boolean("fatal", out.fatal);
    if (rule.find("signals") == nullptr) {
        for (int number : default_signals)
            out.signals.set(static_cast<std::size_t>(number));
    }
    const std::vector<ListedSignal> listed = read_signals(rule, "signals");
    for (const ListedSignal &signal : listed)
        out.signals.set(static_cast<std::size_t>(signal.number));
    check_possible(rule, listed, out.fatal);
    read_sender(rule, in.where, in.lookups.uid_of, out.sender);
}

} // namespace incident::rules
