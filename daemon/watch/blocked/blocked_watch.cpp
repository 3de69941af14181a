#include "daemon/watch/blocked/blocked_watch.h"

#include "daemon/plan/syscall_classes.h"

#include <algorithm>

namespace incident::daemon {

std::uint64_t next_look(std::uint64_t now_ns, std::uint64_t due_ns, std::uint64_t threshold_ns) {
    constexpr std::uint64_t least_slack = 2'000'000;
    const std::uint64_t slack = std::max(threshold_ns / 20, least_slack);
    return std::max(std::min(due_ns, now_ns + threshold_ns), now_ns) + slack;
}

std::uint64_t BlockedWatch::told_ns(std::uint32_t tid, std::uint64_t from_ns) const {
    std::uint64_t longest = 0;
    for (const Told &told : told_)
        if (told.tid == tid && told.off_ns == from_ns)
            longest = std::max(longest, told.deadline_ns);
    return longest;
}

// A wait that is over is not told of again by a rule that has told of it while it lasted.
void BlockedWatch::before_rules(Occurrence &occurrence) {
    if (auto *blocked = std::get_if<rules::BlockedEvent>(&occurrence.event.what); blocked && !blocked->in_flight)
        blocked->told_ns =
            told_ns(occurrence.subject.tid, std::get<capture::BlockedTrigger>(occurrence.trigger).event.from_ns);
}

void BlockedWatch::add_context(const FiredIncident &incident) const {
    if (auto *blocked = std::get_if<capture::BlockedTrigger>(&incident.input.trigger))
        if (const auto *wanted = incident.condition<rules::BlockedCondition>())
            blocked->threshold_ns = static_cast<std::uint64_t>(wanted->threshold.count());
}

std::uint64_t BlockedWatch::poll(std::uint64_t now_ns) {
    const Recorder &recorder = context_.recorder;
    const TriggerPlan &plan = context_.rules.plan;
    const auto &deadlines = plan.blocked_deadlines;
    if (deadlines.empty())
        return never;
    std::uint64_t due = ~0ull;
    for (std::uint32_t slot = 0; slot < recorder.slots(); ++slot) {
        const bpf::thread_slot thread = recorder.header(slot);
        // one that has not decided under these rules yet may be theirs: who decides is asked below
        const std::uint64_t bits = thread.rules_generation == plan.generation ? thread.rules : ~0ull;
        if (thread.state != bpf::SLOT_LIVE || !thread.off_ns || thread.off_ns > now_ns || !(bits & plan.blocked))
            continue;
        bpf::syscall_record call{};
        call.nr = -1;
        if (thread.in_call)
            call = recorder.last_call(slot);
        const bool idle = call.nr >= 0 && is_idle_call(call.nr, call.flags & bpf::SYSCALL_COMPAT);
        if (idle && !plan.blocked_idle)
            continue;
        const std::uint64_t waited = now_ns - thread.off_ns;
        const auto next = std::ranges::upper_bound(deadlines, waited);
        if (next != deadlines.end())
            due = std::min<std::uint64_t>(due, thread.off_ns + *next);
        const std::uint64_t before = told_ns(thread.tid, thread.off_ns);
        if (next == deadlines.begin() || *std::prev(next) <= before)
            continue;
        told_.push_back({thread.tid, thread.off_ns, *std::prev(next)});
        if (told_.size() > remembered)
            told_.pop_front();
        capture::BlockedTrigger trigger;
        trigger.in_flight = true;
        trigger.idle = idle;
        trigger.event.from_ns = thread.off_ns;
        trigger.event.until_ns = now_ns;
        trigger.event.state = thread.off_state;
        trigger.event.nr = call.nr;
        trigger.event.syscall_flags = call.flags;
        Occurrence made;
        const std::string comm(thread.comm, strnlen(thread.comm, sizeof(thread.comm)));
        const auto entry = recorder.process(thread.tgid);
        made.event = {now_ns, context_.facts.of(process_of(thread), entry, comm),
                      rules::BlockedEvent{waited, true, idle, before}};
        made.trigger = trigger;
        made.subject.t_ns = now_ns;
        made.subject.tgid = thread.tgid;
        made.subject.tid = thread.tid;
        made.subject.process_start_boot_ns = thread.process_start_boot_ns;
        made.subject.thread_start_boot_ns = thread.thread_start_boot_ns;
        made.comm = comm;
        context_.occur(std::move(made));
    }
    return next_look(now_ns, due, deadlines.front());
}

} // namespace incident::daemon
