#include "rules/conditions/kinds.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

struct Kind {
    const char *name;
    ConditionKind with_defaults;
    std::vector<std::string> keys;
};

const std::vector<Kind> &kinds() {
    static const std::vector<Kind> all = {
        {"signal", SignalCondition{}, {"signals", "fatal", "sender"}},
        {"latency", LatencyCondition{}, {"probe", "enter", "leave", "threshold", "when", "max_rate"}},
        {"oom", OomCondition{}, {"scope"}},
        {"reclaim", ReclaimCondition{}, {"reclaim", "slower_than"}},
        {"txg_sync", TxgCondition{}, {"pool", "threshold", "when"}},
        {"syscall", SyscallCondition{}, {"syscall", "errno", "slower_than"}},
        {"blocked", BlockedCondition{}, {"threshold", "when", "idle"}},
        {"memory", MemoryCondition{}, {"rss_above", "growth", "within"}},
        {"exit", ExitCondition{}, {"status", "signals"}},
        {"block_io", BlockIoCondition{}, {"slower_than", "error", "device", "io"}},
        {"tracepoint", TracepointCondition{}, {"tracepoint", "filter"}},
    };
    return all;
}

} // namespace

const std::vector<std::string> &condition_kinds() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const Kind &kind : kinds())
            all.emplace_back(kind.name);
        return all;
    }();
    return names;
}

std::optional<ConditionKind> condition_of_kind(std::string_view name) {
    for (const Kind &kind : kinds())
        if (kind.name == name)
            return kind.with_defaults;
    return std::nullopt;
}

const std::vector<KindKey> &kind_keys() {
    static const std::vector<KindKey> keys = [] {
        std::vector<KindKey> all;
        for (const Kind &kind : kinds())
            for (const std::string &key : kind.keys) {
                const auto known = std::find_if(all.begin(), all.end(), [&](const KindKey &k) { return k.key == key; });
                if (known == all.end())
                    all.push_back({key, fmt::format("'{}' is a key of on = \"{}\"", key, kind.name)});
                else
                    known->hint += fmt::format(", \"{}\"", kind.name);
            }
        return all;
    }();
    return keys;
}

bool takes_time(const ConditionKind &what) {
    return std::holds_alternative<LatencyCondition>(what) || std::holds_alternative<ReclaimCondition>(what) ||
           std::holds_alternative<TxgCondition>(what) || std::holds_alternative<SyscallCondition>(what) ||
           std::holds_alternative<BlockedCondition>(what) || std::holds_alternative<BlockIoCondition>(what);
}

bool of_host(const Condition &condition) {
    return std::holds_alternative<TxgCondition>(condition.what) ||
           (!condition.tally.each() && condition.tally.by == TallyBy::Host);
}

} // namespace incident::rules
