// Handles processes that live on: what made a rule fire, and the snapshot of all their threads.
#include "daemon/assemble/assembly.h"

#include "capture/collect/collect.h"
#include "capture/decode/kernel_path.h"
#include "capture/os/proc_stat.h"
#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "rules/model/user.h"

#include <spdlog/spdlog.h>

#include <cstring>

namespace incident::daemon {

namespace {

// A signal that came without a capture: no event of its target's own tells of it.
void add_signal(const capture::Trigger &trigger, bpf::death_event &event) {
    const auto *signal = std::get_if<capture::SignalTrigger>(&trigger);
    if (!signal || !signal->told)
        return;
    event.number = signal->told->number;
    event.delivered = static_cast<std::uint32_t>(event.number);
    event.code = signal->told->code;
    event.si_errno = signal->told->si_errno;
    event.address = signal->told->address;
    event.disposition = signal->told->disposition;
    event.fatal = 0;
}

} // namespace

// What it executed is not known, and cannot become known any more.
bool Assembler::is_lost(const rules::ProcessFacts &facts) const {
    if (!facts.exe.empty() || facts.pid == 0)
        return false; // the idle task
    const auto live = capture::identify(os_, facts.pid);
    return !live || live->start_ticks != capture::start_ticks_of({facts.start_boot_ns});
}

void Assembler::occur(Occurrence occurrence) {
    listener_.before_rules(occurrence);
    Assembly assembly;
    assembly.facts = occurrence.event.process;
    assembly.input.trigger = std::move(occurrence.trigger);
    auto &event = assembly.input.process.event;
    event.h = occurrence.subject;
    event.h.t_ns = occurrence.event.t_ns;
    event.h.layout = EVENT_LAYOUT;
    event.uid = event.euid = assembly.facts.uid;
    add_signal(assembly.input.trigger, event);
    assembly.facts.comm.copy(event.leader_comm, COMM_LEN - 1);
    occurrence.comm.copy(event.comm, COMM_LEN - 1);
    event.uid = rules::uid_of(assembly.facts);
    assembly.input.clocks = clock_.read(boot_id_);
    assembly.input.trigger_seen = assembly.input.clocks.monotonic;
    assembly.last_event_ns = assembly.input.clocks.monotonic.ns;
    assembly.context_expected = occurrence.captured;
    assembly.dumped = occurrence.dumped;
    const std::uint64_t matches_before = rules_.engine.matched();
    ask_rules(assembly, occurrence.event);
    const bool matched = rules_.engine.matched() != matches_before;
    if (!assembly.rule && occurrence.dumped)
        tell_of_dump(assembly, occurrence);
    if (!assembly.rule) {
        ++(!matched && is_lost(assembly.facts) ? counters_.unknown : counters_.unmatched);
        return;
    }
    const auto &subject = event.h;
    const Key key{process_of(subject), subject.tid};
    if (join(key, assembly))
        return;
    if (subject.tgid)
        assembly.input.process.entry = recorder_.process(subject.tgid);
    if (assembly.dumped) // at once: its death may be the next event
        expect_death(process_of(subject));
    look_at_threads(assembly);
    assemblies_.insert_or_assign(key, std::move(assembly));
}

// The kernel side has made the process dump core.  Whatever the rules of now say of it, that is told, by the rule it
// did it for.
void Assembler::tell_of_dump(Assembly &assembly, const Occurrence &occurrence) {
    if (!occurrence.dumped_by) {
        spdlog::error("{} was sent to pid {} ({}) by the kernel side for a rule of {} reloads ago", occurrence.dumped,
                      occurrence.subject.tgid, occurrence.comm, RuleHistory::generations_kept);
        return;
    }
    rules::Decision decision;
    decision.rule = occurrence.dumped_by->rule.get();
    decision.condition = occurrence.dumped_by->condition;
    decision.outcome = rules::Outcome::Fire;
    fire(assembly, decision);
}

// A firing about a thread whose bundle is being made is told of by that bundle.
bool Assembler::join(const Key &key, const Assembly &fired) {
    const auto open = assemblies_.find(key);
    if (open == assemblies_.end() || open->second.closed || !open->second.rule || !fired.rule)
        return false;
    spdlog::info("rule {} fired for thread {} while {}'s bundle of it was being made: one bundle", fired.rule->name,
                 key.tid, open->second.rule->name);
    ++counters_.joined;
    if (fired.dumped) { // it says that as well
        open->second.dumped = fired.dumped;
        expect_death(key.process);
    }
    return true;
}

// All threads of a process that lives on; their events are read later in the same turn.
void Assembler::look_at_threads(Assembly &assembly) {
    const auto &subject = assembly.input.process.event.h;
    if (subject.tgid == 0)
        return;
    if (auto taken = recorder_.snapshot(subject.tgid); !taken)
        assembly.collected.results.push_back({"threads", false, taken.error().what, 0});
}

// Is that living process the key's?  A kernel thread may be known by its id alone.
bool Assembler::is_of(const Key &key, const bpf::event_header &event) {
    return key.tid != 0 && key.process.pid == event.tgid &&
           (key.process.start.ns == 0 || key.process.start.ns == event.process_start_boot_ns);
}

// The process as the kernel side saw it: in the thread's own context, or from outside,
// which knows less.
void Assembler::on_snapshot(const bpf::death_event &event) {
    const capture::Program program = capture::program_of(event.h);
    const bool own_context = event.args_length != 0 || event.auxv[0] != 0;
    for (auto &[key, assembly] : assemblies_) {
        if (!is_of(key, event.h) || assembly.closed)
            continue;
        auto &known = assembly.input.process.event;
        if (!program.may_be(capture::program_of(known.h))) {
            assembly.collected.results.push_back(
                {"threads", false, "the process has executed another program since: its threads are that one's", 0});
            continue;
        }
        assembly.input.process.threads_expected = event.threads;
        const auto *signal = std::get_if<capture::SignalTrigger>(&assembly.input.trigger);
        const bool taken_here = known.number && !(signal && signal->told); // its own event knows more
        if (assembly.process_seen && (!own_context || known.fatal || taken_here))
            continue;
        const auto head = known.h;
        char comm[COMM_LEN];
        std::memcpy(comm, known.comm, sizeof(comm));
        known = event;
        known.h = head; // when and in which thread it happened
        if (!head.process_start_boot_ns)
            known.h.process_start_boot_ns = event.h.process_start_boot_ns;
        if (!capture::program_of(head).known()) {
            known.h.start_code = event.h.start_code;
            known.h.start_stack = event.h.start_stack;
        }
        if (comm[0])
            std::memcpy(known.comm, comm, sizeof(comm));
        add_signal(assembly.input.trigger, known);
        if (assembly.facts.exe.empty()) // gone before /proc was read
            assembly.facts.exe = capture::path_of(event.exe);
        if (assembly.facts.cgroup.empty()) {
            assembly.facts.cgroup = cgroup_of(event.cgroup, event.cgroup_parts);
            assembly.facts.unit = capture::unit_of_cgroup(assembly.facts.cgroup);
        }
        assembly.process_seen = true;
    }
}

} // namespace incident::daemon
