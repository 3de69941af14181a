#include "daemon/watch/latency_watch.h"

#include "daemon/os/clocks.h"
#include "rules/model/match.h"
#include "rules/text/glob.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

namespace {

ProbePoint point_of(const rules::ProbePoint &point) {
    const auto kind = point.kind == rules::ProbePoint::Kind::Usdt ? ProbePoint::Kind::Usdt : ProbePoint::Kind::Uprobe;
    return {kind, point.binary, point.symbol, point.offset, point.provider, point.name, point.text};
}

// The rule is about whoever runs the probed program: then nobody else can pay for a probe that
// is in the file for all, and a process is timed from its first instruction on.
bool only_the_probed(const rules::Match &match, const rules::ProbePoint &enter) {
    return match.unit.empty() && match.comm.empty() && match.cgroup.empty() && match.uid.empty() &&
           enter.binary.starts_with('/') && rules::any_glob_matches(match.exe, enter.binary);
}

std::uint64_t ns_of(rules::Nanoseconds duration) {
    return static_cast<std::uint64_t>(duration.count());
}

} // namespace

LatencyWatch::LatencyWatch(Recorder &recorder, const capture::OsRoots &os)
    : recorder_(recorder), os_(os), kernel_(recorder), probes_(kernel_, os, UprobeAbilities::here()) {}

void LatencyWatch::set_rules(std::span<const rules::Rule> rules, const TriggerPlan &plan, std::uint64_t now_ns) {
    std::vector<WantedProbe> wanted;
    for (const auto &assigned : plan.assigned) {
        if (!(plan.latency >> assigned.bit & 1))
            continue;
        const auto rule = std::ranges::find(rules, assigned.rule, &rules::Rule::name);
        if (rule == rules.end())
            continue;
        const auto *what = std::get_if<rules::LatencyCondition>(&rule->conditions[assigned.condition].what);
        if (!what)
            continue;
        WantedProbe probe;
        probe.rule = rule->name;
        probe.condition = assigned.condition;
        probe.enter = point_of(what->enter);
        if (what->leave)
            probe.leave = point_of(*what->leave);
        probe.threshold_ns = ns_of(what->threshold);
        probe.when = what->when == rules::When::Return ? ProbeWhen::Return : ProbeWhen::Deadline;
        probe.max_rate = what->max_rate;
        probe.everyone = rule->match.everything() || only_the_probed(rule->match, what->enter);
        probe.generation = plan.generation;
        probe.dump_bit = plan.settings[assigned.bit].dump_signal ? assigned.bit + 1 : 0;
        wanted.push_back(std::move(probe));
    }
    processes_.clear();
    probes_.set(std::move(wanted), now_ns);
}

void LatencyWatch::started(const rules::ProcessFacts &process, std::span<const rules::Rule> rules,
                           std::uint64_t now_ns) {
    processes_[process.pid] = process.start_boot_ns;
    probes_.process_seen(
        process.pid,
        [&](const WantedProbe &probe) {
            const auto rule = std::ranges::find(rules, probe.rule, &rules::Rule::name);
            return rule != rules.end() && rules::mismatch(rule->match, process).empty();
        },
        now_ns);
}

void LatencyWatch::forget_ended() {
    std::erase_if(processes_, [&](const auto &item) {
        const auto entry = recorder_.process(item.first);
        if (entry && entry->start_boot_ns == item.second && !entry->gone_ns)
            return false;
        probes_.process_gone(item.first);
        return true;
    });
    recorder_.forget_keyed_calls([&](std::uint32_t tgid, std::uint64_t start_boot_ns) {
        const auto entry = recorder_.process(tgid);
        return entry && entry->start_boot_ns == start_boot_ns && !entry->gone_ns;
    });
}

capture::LatencyTrigger LatencyWatch::trigger_of(const WantedProbe &wanted, const bpf::call_frame &frame) const {
    capture::LatencyTrigger trigger;
    trigger.probe = wanted.enter.text;
    if (wanted.leave)
        trigger.leave = wanted.leave->text;
    trigger.threshold_ns = wanted.threshold_ns;
    trigger.entry_ns = frame.start_ns;
    std::ranges::copy(frame.args, trigger.args);
    trigger.missed = recorder_.probe_count(frame.probe).missed;
    return trigger;
}

std::size_t LatencyWatch::over(const bpf::latency_event &event, FactsCache &facts, const RuleHistory &history,
                               const std::function<void(Occurrence)> &on_slow) {
    const auto entry = recorder_.process(event.h.tgid);
    const auto thread = recorder_.header(event.slot < recorder_.slots() ? event.slot : 0);
    const bool known = thread.generation == event.generation && thread.tid == event.h.tid;
    const std::string comm = known ? std::string(thread.comm, strnlen(thread.comm, sizeof(thread.comm))) : "";
    std::uint64_t told_ns = 0;
    for (const Told &told : told_)
        if (told.slot == event.slot && told.generation == event.generation && told.start_ns == event.start_ns)
            told_ns = std::max(told_ns, told.deadline_ns);
    bpf::call_frame frame{};
    frame.start_ns = event.start_ns;
    frame.probe = event.probe;
    std::ranges::copy(event.args, frame.args);
    std::optional<RuleHistory::Condition> dumped_by;
    if (event.dumped)
        dumped_by = history.was(event.rules_generation, event.dump_bit);
    std::size_t offered = 0;
    const auto offer = [&](capture::LatencyTrigger trigger, bool has_result, rules::LatencyEvent what) {
        ++offered;
        trigger.elapsed_ns = event.elapsed_ns;
        if (has_result)
            trigger.ret = event.ret;
        trigger.one_thread = !event.keyed;
        if (!event.keyed) {
            trigger.running_ns = event.running_ns;
            trigger.runnable_ns = event.runnable_ns;
        }
        trigger.depth = event.depth;
        Occurrence made;
        made.event = {event.h.t_ns, facts.of(event.h.tgid, event.h.process_start_boot_ns, entry, comm),
                      std::move(what)};
        made.trigger = std::move(trigger);
        made.whom = event.h;
        made.comm = comm;
        made.captured = event.captured != 0;
        made.dumped = static_cast<int>(event.dumped);
        made.dumped_by = dumped_by;
        on_slow(std::move(made));
    };
    const auto told = [&](const WantedProbe &wanted) { // else refused: nobody could tell that it was running
        return !event.keyed || wanted.when != ProbeWhen::Deadline;
    };
    for (const WantedProbe *wanted : probes_.users(event.probe))
        if (event.elapsed_ns >= wanted->threshold_ns && told(*wanted) &&
            history.unchanged(event.rules_generation, wanted->rule))
            offer(trigger_of(*wanted, frame), !wanted->leave,
                  {wanted->rule, wanted->condition, event.elapsed_ns, false, told_ns});
    if (offered || !dumped_by)
        return offered;
    // Its rule is gone since; what it has done is told all the same.
    if (const auto *what =
            std::get_if<rules::LatencyCondition>(&dumped_by->rule->conditions[dumped_by->condition].what)) {
        WantedProbe gone;
        gone.enter = point_of(what->enter);
        if (what->leave)
            gone.leave = point_of(*what->leave);
        gone.threshold_ns = ns_of(what->threshold);
        offer(trigger_of(gone, frame), !gone.leave, {"", 0, event.elapsed_ns, false, told_ns});
    }
    return offered;
}

std::uint64_t LatencyWatch::look(FactsCache &facts, std::uint64_t now_ns,
                                 const std::function<void(Occurrence)> &on_overdue) {
    probes_.wake(now_ns, [&](const OverdueCall &call) {
        const auto thread = recorder_.header(call.thread.slot);
        if (thread.generation != call.thread.calls.generation)
            return;
        told_.push_back({call.thread.slot, thread.generation, call.frame.start_ns, call.threshold_ns});
        if (told_.size() > remembered)
            told_.pop_front();
        const auto entry = recorder_.process(call.thread.tgid);
        const std::string comm(thread.comm, strnlen(thread.comm, sizeof(thread.comm)));
        for (const WantedProbe *wanted : probes_.users(call.frame.probe)) {
            if (wanted->when != ProbeWhen::Deadline || wanted->threshold_ns != call.threshold_ns)
                continue;
            capture::LatencyTrigger trigger = trigger_of(*wanted, call.frame);
            trigger.elapsed_ns = call.now_ns - call.frame.start_ns;
            trigger.in_flight = true;
            trigger.depth = call.depth;
            if (const auto split = split_so_far(os_, call.thread.tgid, call.thread.tid, call.frame, call.now_ns)) {
                trigger.running_ns = split->running_ns;
                trigger.runnable_ns = split->runnable_ns;
            }
            Occurrence made;
            made.event = {call.now_ns, facts.of(call.thread.tgid, thread.process_start_boot_ns, entry, comm),
                          rules::LatencyEvent{wanted->rule, wanted->condition, trigger.elapsed_ns, true, 0}};
            made.trigger = std::move(trigger);
            made.whom.t_ns = call.now_ns;
            made.whom.tgid = call.thread.tgid;
            made.whom.tid = call.thread.tid;
            made.whom.process_start_boot_ns = thread.process_start_boot_ns;
            made.whom.thread_start_boot_ns = thread.thread_start_boot_ns;
            made.comm = comm;
            on_overdue(std::move(made));
        }
    });
    return probes_.next_wake();
}

void LatencyWatch::describe(ConditionStates &states) const {
    for (const ProbeReport &report : probes_.reports()) {
        RuleState &state = states[fmt::format("{}:{}", report.rule, report.condition)];
        state.state = report.state == ProbeReport::State::Active     ? "active"
                      : report.state == ProbeReport::State::Degraded ? "degraded"
                                                                     : "unavailable";
        state.reason = report.reason;
        if (report.off_until_ns)
            state.reason += fmt::format("; since {}, tried again at {}", time_text(report.off_since_ns),
                                        time_text(report.off_until_ns));
    }
}

} // namespace incident::daemon
