// Handles processes that die: asks the rules about their death, and finds deaths whose event was lost.
#include "daemon/assemble/assembly.h"

#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "daemon/record/thread_limits.h"
#include "rules/model/user.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

rules::Event signal_event(const bpf::death_event &event, const std::optional<bpf::process_entry> &entry,
                          rules::ProcessFacts facts) {
    rules::SignalEvent signal;
    signal.number = event.number;
    signal.fatal = event.fatal != 0;
    // si_code > 0 is the kernel's own (include/uapi/asm-generic/siginfo.h: SI_FROMKERNEL)
    signal.from_kernel = event.has_siginfo && event.code > 0;
    if (entry && !signal.from_kernel) {
        const bpf::signal_record *last = nullptr;
        for (const auto &record : entry->signal)
            if (record.seq && record.phase == bpf::SIGNAL_GENERATED && record.number == event.number &&
                (!last || record.seq > last->seq))
                last = &record;
        if (last) {
            signal.sender_pid = last->sender_tgid;
            signal.sender_uid = last->sender_uid;
            signal.sender_comm = text_of(last->sender_comm);
        }
    }
    return {event.h.t_ns, std::move(facts), std::move(signal)};
}

} // namespace

void Assembler::expect_death(const capture::ProcessRef &process) {
    constexpr std::size_t most = 1024; // [safety] dumps_per_hour keeps it far below
    if (expected_deaths_.size() >= most)
        expected_deaths_.clear();
    expected_deaths_.insert(process);
}

void Assembler::on_death(const bpf::death_event &event) {
    const Key key{process_of(event.h), event.fatal ? 0 : event.h.tid};
    Assembly assembly;
    assembly.facts = facts_of(os_, event);
    assembly.input.process.event = event;
    assembly.input.process.threads_expected = event.threads;
    assembly.input.process.entry = recorder_.process(event.h.tgid);
    assembly.input.clocks = clock_.read(boot_id_);
    assembly.input.trigger_seen = assembly.input.clocks.monotonic;
    assembly.last_event_ns = assembly.input.clocks.monotonic.ns;
    assembly.process_seen = assembly.context_expected = true;
    decide_death(assembly);
    if (!event.fatal && join(key, assembly))
        return;
    if (assembly.rule && !event.fatal)
        look_at_threads(assembly);
    assemblies_.insert_or_assign(key, std::move(assembly));
}

// The rules about signals, then those about ends, then those about the OOM killer.
void Assembler::decide_death(Assembly &assembly) {
    const auto &event = assembly.input.process.event;
    const auto &entry = assembly.input.process.entry;
    if (event.fatal && expected_deaths_.erase(process_of(event.h))) {
        spdlog::info("pid {} ({}) dies of the signal sent for an earlier incident", event.h.tgid, assembly.facts.comm);
        return;
    }
    ask_rules(assembly, signal_event(event, entry, assembly.facts));
    if (event.fatal)
        ask_rules(assembly, {event.h.t_ns, assembly.facts, rules::ExitEvent{0, event.number}});
    if (rules_.plan.oom && event.fatal && entry && entry->kernel_kill_ns) {
        assembly.perhaps_oom = true;
        assembly.oom = ooms_.take(event.h.tgid);
        decide_oom(assembly);
    }
    if (!assembly.rule && !assembly.perhaps_oom)
        ++counters_.unmatched;
}

void Assembler::decide_oom(Assembly &assembly) {
    if (!assembly.oom || assembly.closed)
        return;
    assembly.perhaps_oom = false;
    const auto &event = assembly.input.process.event;
    const bool had_rule = assembly.rule.has_value();
    ask_rules(assembly, {event.h.t_ns, assembly.facts, rules::OomEvent{assembly.oom->cgroup}});
    if (!assembly.rule)
        return;
    // Whichever rule was the first: what happened is that the OOM killer chose it.
    assembly.input.trigger = assembly.oom->trigger;
    assembly.input.rule.kind = "oom";
    if (!had_rule)
        for (auto &thread : assembly.input.process.threads)
            keep_wanted(assembly.rule->context, thread);
}

// A thread's process: its own, one that an assembly knows it in, or as /proc says.
std::uint32_t Assembler::pid_of_thread(std::uint32_t tid) const {
    for (const auto &[key, assembly] : assemblies_)
        if (key.process.pid == tid ||
            std::ranges::any_of(assembly.input.process.threads, [&](const auto &thread) { return thread.tid == tid; }))
            return key.process.pid;
    for (std::uint32_t slot = 0; slot < recorder_.slots(); ++slot)
        if (const auto header = recorder_.header(slot); header.tid == tid && header.state != bpf::SLOT_FREE)
            return header.tgid;
    return tid;
}

void Assembler::on_oom(const bpf::oom_event &event) {
    const std::uint32_t victim = pid_of_thread(event.victim);
    const auto entry = recorder_.process(victim);
    const auto found = entry ? Result<capture::ProcessIdentity>(fail("")) : capture::identify(os_, victim);
    ooms_.note(event, victim, rules::user_of(entry ? entry->uid : found ? found->real_uid : ~0u));
    for (auto &[key, assembly] : assemblies_)
        if (key.process.pid == victim && key.tid == 0 && assembly.perhaps_oom && !assembly.closed) {
            assembly.oom = ooms_.take(victim);
            decide_oom(assembly);
            return;
        }
}

void Assembler::find_lost(std::uint64_t now_ns) {
    // Younger deaths may still have their event on the way.
    constexpr std::uint64_t grace_ns = 200'000'000;
    for (const auto tgid : recorder_.processes()) {
        const auto entry = recorder_.process(tgid);
        if (!entry || !entry->death_ns || entry->death_ns + grace_ns > now_ns)
            continue;
        constexpr std::uint32_t sent = 1; // process_entry.death_event: it waits in the ring buffer, or was read
        if (entry->death_event == sent || assemblies_.contains({process_of(*entry), 0}))
            continue;
        on_lost(*entry);
    }
}

namespace {

// What the kernel side kept of it in place of its death event.
void copy_kept(const bpf::kept_death &kept, bpf::death_event &event) {
    event.delivered = static_cast<__u32>(kept.delivered);
    std::memcpy(event.comm, kept.comm, sizeof(event.comm));
    std::memcpy(event.leader_comm, kept.leader_comm, sizeof(event.leader_comm));
    event.uid = kept.uid;
    event.gid = kept.gid;
    event.euid = kept.euid;
    event.threads = kept.threads;
    event.mnt_ns = kept.mnt_ns;
    event.net_ns = kept.net_ns;
    event.user_ns = kept.user_ns;
    event.cgroup_ns = kept.cgroup_ns;
    event.dumpable = kept.dumpable;
    event.cgroup_id = kept.cgroup_id;
    event.cgroup_parts = kept.cgroup_parts;
    event.cgroup_cut = kept.cgroup_cut;
    std::memcpy(event.cgroup, kept.cgroup, sizeof(event.cgroup));
    event.exe = kept.exe;
}

} // namespace

// A death without its event: from the process table, the rings and what was kept.
void Assembler::on_lost(const bpf::process_entry &entry) {
    bpf::death_event event{};
    event.h = {
        bpf::EVENT_DEATH, EVENT_LAYOUT, entry.death_ns, entry.tgid, entry.death_tid, entry.start_boot_ns, 0, 0, 0};
    event.fatal = 1;
    event.disposition = bpf::DISPOSITION_FATAL;
    event.number = entry.death_signal;
    event.delivered = static_cast<__u32>(entry.death_signal);
    event.code = entry.death_code;
    event.address = entry.death_address;
    event.has_siginfo = entry.death_code != 0;
    event.uid = event.euid = entry.uid;
    event.parent_tgid = entry.parent_tgid;
    event.parent_start_boot_ns = entry.parent_start_boot_ns;
    std::memcpy(event.parent_comm, entry.parent_comm, sizeof(event.parent_comm));
    event.threads = entry.threads_sent + entry.threads_unsent;
    const auto kept = recorder_.kept_death(process_of(entry));
    for (const auto slot : recorder_.slots_of(process_of(entry))) {
        const auto header = recorder_.header(slot);
        if (header.tid == entry.tgid || !event.leader_comm[0])
            std::memcpy(event.leader_comm, header.comm, sizeof(event.leader_comm));
        if (header.tid == entry.death_tid) {
            std::memcpy(event.comm, header.comm, sizeof(event.comm));
            event.h.thread_start_boot_ns = header.thread_start_boot_ns;
        }
    }
    if (kept)
        copy_kept(*kept, event);
    spdlog::warn("the death event of pid {} was lost (ring buffer full): made from the process table", entry.tgid);
    tidy(event);
    on_death(event);
    if (kept)
        add_kept_thread(event, *kept);
    if (entry.gone_ns)
        on_gone(event.h);
}

// The crashed thread's registers; its stack is gone.
void Assembler::add_kept_thread(const bpf::death_event &event, const bpf::kept_death &kept) {
    const auto found = assemblies_.find({process_of(event.h), 0});
    if (found == assemblies_.end())
        return;
    bpf::thread_event thread{};
    thread.h = event.h;
    thread.h.kind = bpf::EVENT_THREAD;
    thread.role = bpf::ROLE_CRASHED;
    thread.delivered = kept.delivered;
    thread.slot = ~0u;
    for (const auto slot : recorder_.slots_of(process_of(event.h)))
        if (const auto header = recorder_.header(slot); header.tid == event.h.tid) {
            thread.slot = slot;
            thread.generation = header.generation;
        }
    std::memcpy(thread.comm, kept.comm, sizeof(thread.comm));
    thread.regs = kept.regs;
    for (auto &window : thread.window)
        window.which = 255; // of no register
    thread.stack_unsent = 1;
    tidy(thread);
    add_thread(found->second, thread, {}, std::nullopt);
}

} // namespace incident::daemon
