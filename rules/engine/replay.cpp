#include "rules/engine/replay.h"

#include "rules/conditions/kinds.h"
#include "rules/text/escape.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace incident::rules {
namespace {

// The limit for one firing: how many matches are offered again if only their sums were recorded.
constexpr std::uint64_t most_filled_in = 1'000'000;

void set_value(EventKind &what, std::uint64_t value) {
    if (auto *latency = std::get_if<LatencyEvent>(&what))
        latency->elapsed_ns = value;
    else if (auto *reclaim = std::get_if<ReclaimEvent>(&what))
        reclaim->stalled_ns = value;
    else if (auto *txg = std::get_if<TxgEvent>(&what))
        txg->elapsed_ns = value;
    else if (auto *call = std::get_if<SyscallEvent>(&what))
        call->duration_ns = value;
    else if (auto *blocked = std::get_if<BlockedEvent>(&what))
        blocked->blocked_ns = value;
    else if (auto *memory = std::get_if<MemoryEvent>(&what))
        memory->rss = value;
    else if (auto *request = std::get_if<BlockIoEvent>(&what))
        request->duration_ns = value;
}

template <std::size_t size> int first_of(const std::bitset<size> &set) {
    int number = 0;
    while (number + 1 < static_cast<int>(size) && !set.test(static_cast<std::size_t>(number)))
        ++number;
    return number;
}

// The least event each condition asks for.  A tracepoint's record cannot be made up.
struct LeastEvent {
    std::optional<EventKind> operator()(const SignalCondition &condition) const {
        return SignalEvent{.number = first_of(condition.signals), .fatal = condition.fatal, .from_kernel = true};
    }
    std::optional<EventKind> operator()(const LatencyCondition &condition) const {
        return LatencyEvent{.in_flight = condition.when == When::Deadline};
    }
    std::optional<EventKind> operator()(const OomCondition &condition) const {
        return OomEvent{condition.scope == OomCondition::Scope::Cgroup};
    }
    std::optional<EventKind> operator()(const ReclaimCondition &condition) const {
        return ReclaimEvent{.cgroup = !condition.direct};
    }
    std::optional<EventKind> operator()(const TxgCondition &condition) const {
        return TxgEvent{.pool = condition.pool.empty() ? "" : condition.pool[0],
                        .in_flight = condition.when == When::Deadline};
    }
    std::optional<EventKind> operator()(const SyscallCondition &condition) const {
        const int error = !condition.errnos.empty() ? condition.errnos[0] : condition.failed ? EINVAL : 0;
        return SyscallEvent{.name = condition.names.empty() ? "" : condition.names[0], .ret = -error};
    }
    std::optional<EventKind> operator()(const BlockedCondition &condition) const {
        return BlockedEvent{.in_flight = condition.when == When::Deadline};
    }
    std::optional<EventKind> operator()(const MemoryCondition &) const { return MemoryEvent{}; }
    std::optional<EventKind> operator()(const ExitCondition &condition) const {
        if (condition.status.any())
            return ExitEvent{.status = first_of(condition.status)};
        return ExitEvent{.signal = first_of(condition.signals)};
    }
    std::optional<EventKind> operator()(const BlockIoCondition &condition) const {
        return BlockIoEvent{.device = condition.device.empty() ? "" : condition.device[0],
                            .error = condition.error && !condition.slower_than ? EIO : 0,
                            .write = !condition.reads};
    }
    std::optional<EventKind> operator()(const TracepointCondition &) const { return std::nullopt; }
};

// True if both are the same place in a program or the kernel.
bool same_probe(const ConditionKind &a, const ConditionKind &b) {
    if (const auto *x = std::get_if<LatencyCondition>(&a))
        if (const auto *y = std::get_if<LatencyCondition>(&b))
            return x->enter == y->enter && x->leave == y->leave;
    if (const auto *x = std::get_if<TracepointCondition>(&a))
        if (const auto *y = std::get_if<TracepointCondition>(&b))
            return x->category == y->category && x->name == y->name;
    return false;
}

std::string probe_text(const ConditionKind &what) {
    if (const auto *latency = std::get_if<LatencyCondition>(&what))
        return latency->enter.text;
    if (const auto *tracepoint = std::get_if<TracepointCondition>(&what))
        return tracepoint->category + ":" + tracepoint->name;
    return {};
}

bool has_probe(const EventKind &what) {
    return std::holds_alternative<LatencyEvent>(what) || std::holds_alternative<TracepointEvent>(what);
}

void set_target(EventKind &what, const std::string &rule, std::size_t condition) {
    if (auto *latency = std::get_if<LatencyEvent>(&what)) {
        latency->rule = rule;
        latency->condition = condition;
    } else if (auto *tracepoint = std::get_if<TracepointEvent>(&what)) {
        tracepoint->rule = rule;
        tracepoint->condition = condition;
    }
}

class Replayer {
public:
    explicit Replayer(std::vector<Rule> rules) : engine_(std::move(rules)) {}

    std::vector<Replayed> run(const Recorded &recorded) {
        recorded_ = &recorded;
        answers_.clear();
        for (const Rule &rule : engine_.rules())
            answers_.push_back({rule.name, Outcome::NoMatch, at_first(rule), 0});
        for (const Matched &match : before_trigger())
            if (auto event = event_of(match))
                feed(*event, match.condition, Answers::Firings);
        feed(recorded.event, recorded.condition, Answers::All);
        return std::move(answers_);
    }

private:
    const ConditionKind *condition_then(std::size_t index) const {
        const auto &rule = recorded_->rule_then;
        return rule && index < rule->conditions.size() ? &rule->conditions[index].what : nullptr;
    }

    // Why a rule says nothing to the firing, before any event.
    std::string at_first(const Rule &rule) const {
        if (!rule.enabled)
            return "enabled: the rule is turned off";
        const std::size_t kind = recorded_->event.what.index();
        for (const Condition &condition : rule.conditions)
            if (condition.what.index() == kind)
                return has_probe(recorded_->event.what) ? other_probe(rule, condition.what) : "";
        return fmt::format("on: the firing was of \"{}\", the rule is on = \"{}\"", condition_kinds()[kind], rule.kind);
    }

    std::string other_probe(const Rule &rule, const ConditionKind &what) const {
        const ConditionKind *then = condition_then(recorded_->condition);
        if (then == nullptr)
            return fmt::format("probe: it was recorded at that of rule {}, not of {}", quote(recorded_->rule),
                               quote(rule.name));
        return fmt::format("probe: it was recorded at {}, the rule is at {}", quote(probe_text(*then)),
                           quote(probe_text(what)));
    }

    // The matches but the trigger's own; those that were only added up stand at the oldest's time.
    std::vector<Matched> before_trigger() const {
        std::vector<Matched> matches = recorded_->matches;
        std::uint64_t known = 0;
        for (const Matched &match : matches)
            known += match.value;
        const std::uint64_t total = recorded_->matches_total;
        const std::uint64_t missing = std::min(total > matches.size() ? total - matches.size() : 0, most_filled_in);
        const auto own = std::find_if(matches.rbegin(), matches.rend(), [&](const Matched &match) {
            return match.t_ns == recorded_->event.t_ns && match.condition == recorded_->condition;
        });
        if (own != matches.rend())
            matches.erase(std::next(own).base());
        if (missing > 0 && !matches.empty()) {
            Matched filled = matches.front();
            filled.value = recorded_->value_total > known ? (recorded_->value_total - known) / missing : 0;
            matches.insert(matches.begin(), missing, filled);
        }
        return matches;
    }

    std::optional<Event> event_of(const Matched &match) const {
        Event event{.t_ns = match.t_ns, .process = recorded_->event.process, .what = recorded_->event.what};
        if (match.condition != recorded_->condition) {
            const ConditionKind *then = condition_then(match.condition);
            auto least = then != nullptr ? std::visit(LeastEvent(), *then) : std::nullopt;
            if (!least)
                return std::nullopt;
            event.what = std::move(*least);
        }
        set_value(event.what, match.value);
        return event;
    }

    void feed(const Event &event, std::size_t condition, Answers wanted) {
        if (!has_probe(event.what)) {
            for (const Decision &decision : engine_.decide(event, wanted))
                add(decision, event.t_ns);
            return;
        }
        const ConditionKind *then = condition_then(condition);
        Event aimed = event;
        for (const Rule &rule : engine_.rules())
            for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
                const bool same = then != nullptr ? same_probe(*then, rule.conditions[i].what)
                                                  : rule.name == recorded_->rule && i == condition;
                if (!same)
                    continue;
                set_target(aimed.what, rule.name, i);
                for (const Decision &decision : engine_.decide(aimed, wanted))
                    add(decision, event.t_ns);
            }
    }

    // The first firing stands; else a suppressed one; else what was said last.
    void add(const Decision &decision, std::uint64_t t_ns) {
        Replayed &answer = answers_[static_cast<std::size_t>(decision.rule - engine_.rules().data())];
        const auto rank = [](Outcome outcome) {
            return outcome == Outcome::Fire ? 2 : outcome == Outcome::Suppressed ? 1 : 0;
        };
        if (rank(decision.outcome) < rank(answer.outcome) ||
            (rank(decision.outcome) == rank(answer.outcome) && rank(answer.outcome) > 0))
            return;
        answer.outcome = decision.outcome;
        answer.why = decision.why;
        answer.t_ns = rank(decision.outcome) > 0 ? t_ns : 0;
    }

    Engine engine_;
    const Recorded *recorded_ = nullptr;
    std::vector<Replayed> answers_;
};

} // namespace

std::vector<std::vector<Replayed>> replay(std::vector<Rule> rules, const std::vector<Recorded> &recorded) {
    Replayer replayer(std::move(rules));
    std::vector<std::vector<Replayed>> answers;
    answers.reserve(recorded.size());
    for (const Recorded &firing : recorded)
        answers.push_back(replayer.run(firing));
    return answers;
}

} // namespace incident::rules
