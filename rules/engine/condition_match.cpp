#include "rules/engine/condition_match.h"

#include "rules/model/match.h"
#include "rules/model/units.h"
#include "rules/text/errnos.h"
#include "rules/text/escape.h"
#include "rules/text/glob.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

using Mismatch = std::optional<std::string>;

constexpr std::size_t most_names_shown = 8;

Nanoseconds ns(std::uint64_t value) {
    return Nanoseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX)));
}

// One event and one condition.  Texts are made only where they are wanted.
class Matcher {
public:
    Matcher(const Rule &rule, std::size_t index, const Event &event, bool explain)
        : rule_(rule), index_(index), event_(event), explain_(explain) {}

    Mismatch operator()(const SignalCondition &condition, const SignalEvent &event) const {
        std::string why = mismatch(condition, event, event_.process.pid);
        return why.empty() ? Mismatch() : no([&] { return std::move(why); });
    }

    Mismatch operator()(const LatencyCondition &condition, const LatencyEvent &event) const {
        if (auto other = another_probe(event.rule, event.condition))
            return other;
        return wait(condition.when, condition.threshold, event.elapsed_ns, event);
    }

    Mismatch operator()(const OomCondition &condition, const OomEvent &event) const {
        using Scope = OomCondition::Scope;
        if (condition.scope == Scope::Any || (condition.scope == Scope::Cgroup) == event.cgroup)
            return yes;
        return no([&] { return fmt::format("scope: {} ran out of memory", event.cgroup ? "a cgroup" : "the host"); });
    }

    Mismatch operator()(const ReclaimCondition &condition, const ReclaimEvent &event) const {
        if (event.cgroup ? !condition.cgroup : !condition.direct)
            return no([&] { return fmt::format("reclaim: this is {} reclaim", event.cgroup ? "cgroup" : "direct"); });
        return slower(condition.slower_than, event.stalled_ns, "slower_than");
    }

    Mismatch operator()(const TxgCondition &condition, const TxgEvent &event) const {
        if (!condition.pool.empty() && !any_glob_matches(condition.pool, event.pool))
            return no(
                [&] { return fmt::format("pool: {} is none of {}", quote(event.pool), shown_list(condition.pool)); });
        return wait(condition.when, condition.threshold, event.elapsed_ns, event);
    }

    Mismatch operator()(const SyscallCondition &condition, const SyscallEvent &event) const {
        const auto &names = condition.names;
        if (!names.empty() && !std::binary_search(names.begin(), names.end(), event.name))
            return no([&] { return fmt::format("syscall: {} is none of {}", quote(event.name), shown_list(names)); });
        const int error = event.ret < 0 && event.ret >= -last_kernel_error ? static_cast<int>(-event.ret) : 0;
        if ((condition.failed || !condition.errnos.empty()) && error == 0)
            return no([&] { return std::string("errno: the call succeeded"); });
        if (!condition.errnos.empty() &&
            std::find(condition.errnos.begin(), condition.errnos.end(), error) == condition.errnos.end())
            return no([&] {
                return fmt::format("errno: {} is none of {}", errno_name(error), shown_errors(condition.errnos));
            });
        return condition.slower_than ? slower(*condition.slower_than, event.duration_ns, "slower_than") : yes;
    }

    Mismatch operator()(const BlockedCondition &condition, const BlockedEvent &event) const {
        if (event.idle && !condition.idle)
            return no([] { return std::string("idle: it waited for something to do"); });
        return wait(condition.when, condition.threshold, event.blocked_ns, event);
    }

    Mismatch operator()(const MemoryCondition &, const MemoryEvent &) const { return yes; }

    Mismatch operator()(const ExitCondition &condition, const ExitEvent &event) const {
        if (event.signal != 0) {
            const bool known = event.signal > 0 && event.signal < static_cast<int>(condition.signals.size());
            if (known && condition.signals.test(static_cast<std::size_t>(event.signal)))
                return yes;
            return no([&] { return fmt::format("signals: it was killed by signal {}", event.signal); });
        }
        if (condition.status.test(static_cast<std::size_t>(event.status) & 0xFF))
            return yes;
        return no([&] { return fmt::format("status: it exited with {}", event.status); });
    }

    Mismatch operator()(const BlockIoCondition &condition, const BlockIoEvent &event) const {
        if (event.write ? !condition.writes : !condition.reads)
            return no([&] { return fmt::format("io: this was a {}", event.write ? "write" : "read"); });
        if (!condition.device.empty() && !any_glob_matches(condition.device, event.device))
            return no([&] {
                return fmt::format("device: {} is none of {}", quote(event.device), shown_list(condition.device));
            });
        if (condition.error && event.error != 0)
            return yes;
        if (condition.slower_than)
            return slower(*condition.slower_than, event.duration_ns, "slower_than");
        return condition.error ? no([] { return std::string("error: the request succeeded"); }) : yes;
    }

    Mismatch operator()(const TracepointCondition &condition, const TracepointEvent &event) const {
        if (auto other = another_probe(event.rule, event.condition))
            return other;
        if (holds(condition.filter, event.record))
            return yes;
        return no([&] {
            return condition.filter.checked ? fmt::format("filter: {} does not hold", quote(condition.filter_text))
                                            : std::string("filter: it was not checked against the tracepoint's format");
        });
    }

    template <typename Condition, typename Other> Mismatch operator()(const Condition &, const Other &) const {
        return no(
            [&] { return fmt::format("on: the event is of another kind than \"{}\"", rule_.conditions[index_].kind); });
    }

private:
    static constexpr std::int64_t last_kernel_error = 4095; // MAX_ERRNO
    static constexpr std::nullopt_t yes = std::nullopt;

    template <typename Text> Mismatch no(Text text) const {
        return explain_ ? Mismatch(text()) : Mismatch(std::in_place);
    }

    Mismatch another_probe(const std::string &rule, std::size_t condition) const {
        if (rule == rule_.name && condition == index_)
            return yes;
        return no(
            [&] { return fmt::format("on: this is the probe of rule {}, condition {}", quote(rule), condition + 1); });
    }

    Mismatch slower(Nanoseconds least, std::uint64_t took, const char *key) const {
        if (ns(took) >= least)
            return yes;
        return no(
            [&] { return fmt::format("{}: took {}, less than {}", key, about_text(ns(took)), duration_text(least)); });
    }

    // A deadline that has passed is one, even where the wait was over before anybody looked.
    template <typename What>
    Mismatch wait(When when, Nanoseconds threshold, std::uint64_t took, const What &event) const {
        if (when == When::Return && event.in_flight)
            return no([] { return std::string("when: it is not over yet"); });
        if (when == When::Deadline && threshold <= Nanoseconds(event.told_ns))
            return no([] { return std::string("when: this deadline was asked about before, while it lasted"); });
        return slower(threshold, took, "threshold");
    }

    static std::string shown_errors(const std::vector<int> &errnos) {
        std::string out;
        for (std::size_t i = 0; i < errnos.size() && i < most_names_shown; ++i)
            out += (i > 0 ? ", " : "") + errno_name(errnos[i]);
        return fmt::format("[{}{}]", out, errnos.size() > most_names_shown ? ", ..." : "");
    }

    const Rule &rule_;
    std::size_t index_;
    const Event &event_;
    bool explain_;
};

} // namespace

std::optional<std::string> mismatch(const Rule &rule, std::size_t condition, const Event &event, bool explain) {
    return std::visit(Matcher(rule, condition, event, explain), rule.conditions[condition].what, event.what);
}

std::uint64_t value_of(const EventKind &what) {
    if (const auto *latency = std::get_if<LatencyEvent>(&what))
        return latency->elapsed_ns;
    if (const auto *reclaim = std::get_if<ReclaimEvent>(&what))
        return reclaim->stalled_ns;
    if (const auto *txg = std::get_if<TxgEvent>(&what))
        return txg->elapsed_ns;
    if (const auto *call = std::get_if<SyscallEvent>(&what))
        return call->duration_ns;
    if (const auto *blocked = std::get_if<BlockedEvent>(&what))
        return blocked->blocked_ns;
    if (const auto *memory = std::get_if<MemoryEvent>(&what))
        return memory->rss;
    if (const auto *request = std::get_if<BlockIoEvent>(&what))
        return request->duration_ns;
    return 0;
}

} // namespace incident::rules
