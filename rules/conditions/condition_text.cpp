#include "rules/conditions/condition_text.h"

#include "rules/model/units.h"
#include "rules/text/errnos.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

std::string quoted(const char *text) {
    return fmt::format("\"{}\"", text);
}
std::string duration(Nanoseconds value) {
    return toml(duration_text(value));
}
std::string size(std::uint64_t bytes) {
    return toml(size_text(bytes));
}

void add_wait(TomlKeys &out, When when, Nanoseconds threshold) {
    out.add("threshold", duration(threshold));
    out.add("when", quoted(word_of(when_words, when)));
}

void add(TomlKeys &out, const SignalCondition &what) {
    out.add("signals", toml_signals(what.signals));
    out.add("fatal", what.fatal);
    TomlKeys sender;
    sender.list("comm", what.sender.comm);
    sender.list("uid", what.sender.uid);
    if (what.sender.self)
        sender.add("self", *what.sender.self);
    if (!sender.empty())
        out.add("sender", sender.inline_table());
}

void add(TomlKeys &out, const LatencyCondition &what) {
    if (what.leave) {
        out.add("enter", toml(what.enter.text));
        out.add("leave", toml(what.leave->text));
    } else {
        out.add("probe", toml(what.enter.text));
    }
    add_wait(out, what.when, what.threshold);
    out.add("max_rate", toml(what.max_rate));
}

void add(TomlKeys &out, const OomCondition &what) {
    out.add("scope", quoted(word_of(what.scope_words, what.scope)));
}

void add(TomlKeys &out, const ReclaimCondition &what) {
    out.add("reclaim", quoted(!what.cgroup ? "direct" : !what.direct ? "cgroup" : "any"));
    if (what.slower_than.count() > 0)
        out.add("slower_than", duration(what.slower_than));
}

void add(TomlKeys &out, const TxgCondition &what) {
    out.list("pool", what.pool);
    add_wait(out, what.when, what.threshold);
}

void add(TomlKeys &out, const SyscallCondition &what) {
    out.list("syscall", what.names);
    std::vector<std::string> errors;
    errors.reserve(what.errnos.size());
    for (const int number : what.errnos)
        errors.push_back(errno_name(number));
    out.list("errno", errors);
    if (what.failed)
        out.add("errno", quoted("any"));
    if (what.slower_than)
        out.add("slower_than", duration(*what.slower_than));
}

void add(TomlKeys &out, const BlockedCondition &what) {
    add_wait(out, what.when, what.threshold);
    out.add("idle", what.idle);
}

void add(TomlKeys &out, const MemoryCondition &what) {
    if (what.rss_above)
        out.add("rss_above", size(*what.rss_above));
    if (what.growth) {
        out.add("growth", size(*what.growth));
        out.add("within", duration(what.within));
    }
}

void add(TomlKeys &out, const ExitCondition &what) {
    if (what.status.any())
        out.add("status", toml_status(what.status));
    if (what.signals.any())
        out.add("signals", toml_signals(what.signals));
}

void add(TomlKeys &out, const BlockIoCondition &what) {
    if (what.slower_than)
        out.add("slower_than", duration(*what.slower_than));
    out.add("error", what.error);
    out.list("device", what.device);
    out.add("io", quoted(!what.writes ? "read" : !what.reads ? "write" : "any"));
}

void add(TomlKeys &out, const TracepointCondition &what) {
    out.add("tracepoint", toml(what.category + ":" + what.name));
    if (!what.filter_text.empty())
        out.add("filter", toml(what.filter_text));
}

void add_tally(TomlKeys &out, const Condition &condition) {
    const Tally &tally = condition.tally;
    if (tally.each())
        return;
    if (tally.count > 1)
        out.add("count", std::to_string(tally.count));
    if (tally.stalled.count() > 0)
        out.add("stalled", duration(tally.stalled));
    out.add("window", duration(tally.window));
    out.add("by", quoted(word_of(tally_by_words, tally.by)));
}

} // namespace

TomlKeys condition_keys(const Condition &condition) {
    TomlKeys out;
    out.add("on", toml(condition.kind));
    std::visit([&](const auto &what) { add(out, what); }, condition.what);
    add_tally(out, condition);
    return out;
}

} // namespace incident::rules
