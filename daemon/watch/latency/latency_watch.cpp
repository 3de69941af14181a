#include "daemon/watch/latency/latency_watch.h"

#include "daemon/os/clocks.h"
#include "rules/model/match.h"
#include "rules/text/glob.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

namespace {

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

LatencyWatch::LatencyWatch(const WatchContext &context)
    : Watch(context), kernel_(context.recorder), probes_(kernel_, context.os, UprobeAbilities::here()) {}

void LatencyWatch::apply(std::uint64_t now_ns) {
    const TriggerPlan &plan = context_.rules.plan;
    const auto rules = context_.rules.rules();
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
        probe.enter = what->enter;
        probe.leave = what->leave;
        probe.threshold_ns = ns_of(what->threshold);
        probe.when = what->when;
        probe.max_rate = what->max_rate;
        probe.everyone = rule->match.everything() || only_the_probed(rule->match, what->enter);
        probe.generation = plan.generation;
        probe.dump_bit = plan.settings[assigned.bit].dump_signal ? assigned.bit + 1 : 0;
        wanted.push_back(std::move(probe));
    }
    processes_.clear();
    probes_.set(std::move(wanted), now_ns);
}

void LatencyWatch::started(const rules::ProcessFacts &process) {
    processes_.insert(process_of(process));
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    probes_.process_seen(
        process.pid,
        [&](const WantedProbe &probe) {
            const rules::Rule *rule = context_.rules.engine.rule(probe.rule);
            return rule && rules::mismatch(rule->match, process).empty();
        },
        now);
    poll(now);
    wake_at(probes_.next_wake());
}

// Takes the probes out of processes that have ended.
bool LatencyWatch::tend(std::uint64_t) {
    const auto lives = [&](const capture::ProcessRef &process) {
        const auto entry = context_.recorder.process(process.pid);
        return entry && process_of(*entry) == process && !entry->gone_ns;
    };
    std::erase_if(processes_, [&](const capture::ProcessRef &process) {
        if (lives(process))
            return false;
        probes_.process_gone(process.pid);
        return true;
    });
    context_.recorder.forget_keyed_calls(lives);
    return false;
}

std::optional<bool> LatencyWatch::take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) {
    if (header.kind == bpf::EVENT_CODE) {
        probes_.code_loaded(header.tgid, clock_ns(CLOCK_MONOTONIC));
        return true;
    }
    if (header.kind != bpf::EVENT_LATENCY)
        return std::nullopt;
    const auto event = event_of<bpf::latency_event>(bytes);
    return !event || over(*event) > 0;
}

capture::LatencyTrigger LatencyWatch::trigger_of(const WantedProbe &wanted, const bpf::call_frame &frame) const {
    capture::LatencyTrigger trigger;
    trigger.probe = wanted.enter.text;
    if (wanted.leave)
        trigger.leave = wanted.leave->text;
    trigger.threshold_ns = wanted.threshold_ns;
    trigger.entry_ns = frame.start_ns;
    std::ranges::copy(frame.args, trigger.args);
    trigger.missed = context_.recorder.probe_count(frame.probe).missed;
    return trigger;
}

std::size_t LatencyWatch::over(const bpf::latency_event &event) {
    const RuleHistory &history = context_.rules.history;
    const auto entry = context_.recorder.process(event.h.tgid);
    const auto thread = context_.recorder.header(event.slot < context_.recorder.slots() ? event.slot : 0);
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
        made.event = {event.h.t_ns, context_.facts.of(process_of(event.h), entry, comm), std::move(what)};
        made.trigger = std::move(trigger);
        made.subject = event.h;
        made.comm = comm;
        made.captured = event.captured != 0;
        made.dumped = static_cast<int>(event.dumped);
        made.dumped_by = dumped_by;
        context_.occur(std::move(made));
    };
    const auto told = [&](const WantedProbe &wanted) { // else refused: nobody could tell that it was running
        return !event.keyed || wanted.when != rules::When::Deadline;
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
        gone.enter = what->enter;
        gone.leave = what->leave;
        gone.threshold_ns = ns_of(what->threshold);
        offer(trigger_of(gone, frame), !gone.leave, {"", 0, event.elapsed_ns, false, told_ns});
    }
    return offered;
}

std::uint64_t LatencyWatch::poll(std::uint64_t now_ns) {
    probes_.wake(now_ns, [this](const OverdueCall &call) { overdue(call); });
    return probes_.next_wake();
}

void LatencyWatch::overdue(const OverdueCall &call) {
    const auto thread = context_.recorder.header(call.thread.slot);
    if (thread.generation != call.thread.calls.generation)
        return;
    told_.push_back({call.thread.slot, thread.generation, call.frame.start_ns, call.threshold_ns});
    if (told_.size() > remembered)
        told_.pop_front();
    const auto entry = context_.recorder.process(call.thread.tgid);
    const std::string comm(thread.comm, strnlen(thread.comm, sizeof(thread.comm)));
    for (const WantedProbe *wanted : probes_.users(call.frame.probe)) {
        if (wanted->when != rules::When::Deadline || wanted->threshold_ns != call.threshold_ns)
            continue;
        capture::LatencyTrigger trigger = trigger_of(*wanted, call.frame);
        trigger.elapsed_ns = call.now_ns - call.frame.start_ns;
        trigger.in_flight = true;
        trigger.depth = call.depth;
        if (const auto split = split_so_far(context_.os, call.thread.tgid, call.thread.tid, call.frame, call.now_ns)) {
            trigger.running_ns = split->running_ns;
            trigger.runnable_ns = split->runnable_ns;
        }
        Occurrence made;
        made.event = {call.now_ns, context_.facts.of(process_of(thread), entry, comm),
                      rules::LatencyEvent{wanted->rule, wanted->condition, trigger.elapsed_ns, true, 0}};
        made.trigger = std::move(trigger);
        made.subject.t_ns = call.now_ns;
        made.subject.tgid = call.thread.tgid;
        made.subject.tid = call.thread.tid;
        made.subject.process_start_boot_ns = thread.process_start_boot_ns;
        made.subject.thread_start_boot_ns = thread.thread_start_boot_ns;
        made.comm = comm;
        context_.occur(std::move(made));
    }
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
