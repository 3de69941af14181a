#include "daemon/assembly.h"

#include "daemon/clocks.h"
#include "daemon/facts.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

// A copy, for ring-buffer bytes are neither aligned to every type nor ours to change.
template <typename T> std::optional<T> event_of(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < sizeof(T))
        return std::nullopt;
    T event;
    std::memcpy(&event, bytes.data(), sizeof(T));
    return event;
}

rules::SignalEvent signal_event(const bpf::death_event &event, const std::optional<bpf::process_entry> &entry,
                                rules::ProcessFacts facts) {
    rules::SignalEvent signal;
    signal.t_ns = event.h.t_ns;
    signal.process = std::move(facts);
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
    return signal;
}

// The recorder keeps what any rule wants; a bundle gets what its own rule's context says.
void keep_wanted(const rules::Context &context, capture::ThreadSnapshot &thread) {
    if (thread.stack.size() > context.stack_bytes) {
        thread.stack.resize(context.stack_bytes);
        thread.event->stack_length = context.stack_bytes;
    }
    if (thread.event)
        thread.event->stack_wanted = context.stack_bytes;
    if (thread.rings && !context.files)
        thread.rings->opens.clear();
    if (thread.rings && !context.memory)
        thread.rings->memory.clear();
}

} // namespace

Assembler::Assembler(Recorder &recorder, rules::Engine &engine, capture::OsRoots os, std::string boot_id,
                     rules::Nanoseconds deadline, std::function<void(Assembly)> on_ready)
    : recorder_(recorder), engine_(engine), os_(std::move(os)), boot_id_(std::move(boot_id)),
      deadline_ns_(static_cast<std::uint64_t>(deadline.count())), on_ready_(std::move(on_ready)),
      quiet_losses_(recorder.loss_counts()) {}

void Assembler::take(std::span<const std::uint8_t> bytes) {
    const auto header = event_of<bpf::event_header>(bytes);
    if (!header || header->layout != EVENT_LAYOUT)
        return;
    switch (header->kind) {
    case bpf::EVENT_DEATH:
    case bpf::EVENT_SIGNAL:
        if (auto event = event_of<bpf::death_event>(bytes)) {
            tidy(*event);
            on_death(*event);
        }
        break;
    case bpf::EVENT_THREAD:
        on_thread(bytes);
        break;
    case bpf::EVENT_GONE:
        on_gone(*header);
        break;
    case bpf::EVENT_WATCH:
        if (const auto event = event_of<bpf::watch_event>(bytes))
            on_watch(*event);
        break;
    }
}

void Assembler::on_watch(const bpf::watch_event &event) {
    const auto facts = facts_of(os_, event);
    const bool watch = engine_.watches(facts);
    spdlog::debug("watch {} pid {} exe {} cgroup {}: {}", facts.comm, facts.pid, facts.exe, facts.cgroup, watch);
    recorder_.give_verdict(event.key, watch);
}

void Assembler::on_death(const bpf::death_event &event) {
    const Key key{event.h.tgid, event.h.process_start_boot_ns, event.fatal ? 0 : event.h.tid};
    Assembly assembly;
    assembly.facts = facts_of(os_, event);
    assembly.input.process.event = event;
    assembly.input.process.threads_expected = event.threads;
    assembly.input.process.entry = recorder_.process(event.h.tgid);
    assembly.input.clocks = read_clocks(boot_id_);
    assembly.input.signal_seen_ns = assembly.input.clocks.monotonic_ns;
    assembly.last_event_ns = assembly.input.clocks.monotonic_ns;
    decide(assembly);
    assemblies_.insert_or_assign(key, std::move(assembly));
}

// Asks the rules, and where one fires reads at once what vanishes with the process.
void Assembler::decide(Assembly &assembly) {
    const auto &event = assembly.input.process.event;
    for (const auto &decision : engine_.decide(signal_event(event, assembly.input.process.entry, assembly.facts))) {
        if (decision.verdict == rules::Verdict::Suppressed) {
            ++counters_.suppressed;
            spdlog::info("rule {}: suppressed for pid {} ({}): {}", decision.rule->name, event.h.tgid,
                         assembly.facts.comm, decision.why);
        }
        if (decision.verdict != rules::Verdict::Fire)
            continue;
        if (assembly.rule) {
            spdlog::info("rule {} fired too for pid {}; its bundle is {}'s", decision.rule->name, event.h.tgid,
                         assembly.rule->name);
            continue;
        }
        assembly.rule = *decision.rule;
        assembly.input.rule = {decision.rule->name, decision.rule->kind, decision.rule->text,
                               fmt::format("{}:{}", decision.rule->at.file, decision.rule->at.line),
                               decision.suppressed_before};
    }
    if (!assembly.rule) {
        ++counters_.unmatched;
        return;
    }
    capture::CollectLimits limits;
    limits.environ = assembly.rule->context.environ;
    capture::collect_process(os_, event.h.tgid, event.h.process_start_boot_ns, limits, assembly.collected);
}

void Assembler::on_thread(std::span<const std::uint8_t> bytes) {
    auto event = event_of<bpf::thread_event>(bytes);
    if (!event)
        return;
    tidy(*event);
    const bool signalled = event->role == bpf::ROLE_SIGNALLED;
    const auto found = assemblies_.find({event->h.tgid, event->h.process_start_boot_ns, signalled ? event->h.tid : 0});
    if (found == assemblies_.end() || found->second.closed) {
        // Its death event was lost (find_lost will tell), or it came after the deadline.
        if (found != assemblies_.end() && !signalled && event->slot != ~0u)
            recorder_.release(event->slot);
        return;
    }
    auto stack = bytes.subspan(sizeof(bpf::thread_event));
    add_thread(found->second, *event, stack.first(std::min<std::size_t>(stack.size(), event->stack_length)));
}

void Assembler::add_thread(Assembly &assembly, const bpf::thread_event &event, std::span<const std::uint8_t> stack) {
    assembly.last_event_ns = clock_ns(CLOCK_MONOTONIC);
    const bool pinned = event.role != bpf::ROLE_SIGNALLED;
    if (!assembly.rule) {
        if (pinned && event.slot != ~0u)
            recorder_.release(event.slot);
        return;
    }
    capture::ThreadSnapshot thread;
    thread.tid = event.h.tid;
    thread.event = event;
    thread.event->stack_length = static_cast<__u32>(stack.size());
    thread.stack.assign(stack.begin(), stack.end());
    if (event.slot == ~0u)
        thread.missing = "no syscalls: it made none while recorded, or had no ring (see losses)";
    else if (!(thread.rings = recorder_.read(event.slot, event.generation)))
        thread.missing = "no syscalls: its ring was already used again";
    if (event.slot != ~0u && pinned)
        recorder_.release(event.slot);
    keep_wanted(assembly.rule->context, thread);
    auto &threads = assembly.input.process.threads;
    if (event.role == bpf::ROLE_CRASHED || event.role == bpf::ROLE_SIGNALLED)
        threads.insert(threads.begin(), std::move(thread));
    else
        threads.push_back(std::move(thread));
}

// Threads that have a ring but sent no event: what did not fit into the ring buffer, or
// has not come by.
void Assembler::add_silent_threads(Assembly &assembly) {
    auto &process = assembly.input.process;
    const bool fatal = process.event.fatal != 0;
    for (const auto slot : recorder_.slots_of(process.event.h.tgid, process.event.h.process_start_boot_ns)) {
        const auto header = recorder_.header(slot);
        const bool known =
            std::ranges::any_of(process.threads, [&](const auto &thread) { return thread.tid == header.tid; });
        if (!known) {
            capture::ThreadSnapshot thread;
            thread.tid = header.tid;
            thread.rings = recorder_.read(slot, header.generation);
            if (!fatal)
                thread.missing = "no registers: other threads are not stopped by a signal that does not kill";
            else if (header.captured == 2)
                thread.missing = "no registers and stack: the ring buffer was full";
            else
                thread.missing = "no registers and stack: it had not passed signal delivery by the deadline";
            if (assembly.rule)
                keep_wanted(assembly.rule->context, thread);
            process.threads.push_back(std::move(thread));
        }
        if (fatal)
            recorder_.release(slot);
    }
    if (process.threads.size() > 1)
        std::ranges::sort(process.threads.begin() + 1, process.threads.end(), {}, &capture::ThreadSnapshot::tid);
}

void Assembler::on_gone(const bpf::event_header &event) {
    const Key key{event.tgid, event.process_start_boot_ns, 0};
    const auto found = assemblies_.find(key);
    if (found == assemblies_.end())
        return; // find_lost will see it in the process table
    found->second.input.process.gone = true;
    if (!found->second.closed)
        close(key, found->second, false);
    forget(key);
}

bool Assembler::complete(const Key &key, const Assembly &assembly) {
    if (key.tid)
        return !assembly.input.process.threads.empty();
    if (!assembly.rule)
        return false; // only waits to be gone
    const auto entry = recorder_.process(key.tgid);
    const bool same = entry && entry->start_boot_ns == key.start_boot_ns;
    // Every thread has passed, whether or not its event found room.
    return same && entry->threads_sent + entry->threads_unsent >= assembly.input.process.threads_expected &&
           assembly.input.process.threads.size() >= entry->threads_sent;
}

bool Assembler::tend(std::uint64_t now_ns) {
    std::vector<Key> over;
    bool again = false;
    for (auto &[key, assembly] : assemblies_) {
        const bool overdue = now_ns - std::min(now_ns, assembly.last_event_ns) > deadline_ns_;
        if (!assembly.closed && (complete(key, assembly) || overdue))
            close(key, assembly, overdue && !complete(key, assembly));
        if (!assembly.closed) {
            again = true;
            continue;
        }
        // Closed: kept until the process is gone, so that its late threads find their place.
        const auto entry = key.tid ? std::nullopt : recorder_.process(key.tgid);
        if (!entry || entry->start_boot_ns != key.start_boot_ns || entry->gone_ns)
            over.push_back(key);
    }
    for (const auto &key : over)
        forget(key);
    if (!again)
        quiet_losses_ = recorder_.loss_counts();
    return again;
}

void Assembler::close(const Key &key, Assembly &assembly, bool overdue) {
    assembly.closed = true;
    auto &process = assembly.input.process;
    if (auto entry = recorder_.process(key.tgid); entry && entry->start_boot_ns == key.start_boot_ns)
        process.entry = entry;
    add_silent_threads(assembly);
    if (!assembly.rule)
        return;
    process.deadline_passed = overdue;
    assembly.input.losses = describe_losses(recorder_.loss_counts(), quiet_losses_, true);
    assembly.input.probes = recorder_.probes();
    Assembly ready;
    ready.rule = std::move(assembly.rule);
    ready.facts = assembly.facts;
    ready.input = std::move(assembly.input);
    ready.collected = std::move(assembly.collected);
    assembly.input.process.event = ready.input.process.event;
    assembly.input.process.gone = ready.input.process.gone;
    assembly.rule.reset();
    on_ready_(std::move(ready));
}

void Assembler::forget(const Key &key) {
    if (!key.tid) {
        for (const auto slot : recorder_.slots_of(key.tgid, key.start_boot_ns))
            recorder_.release(slot);
        if (const auto entry = recorder_.process(key.tgid); entry && entry->start_boot_ns == key.start_boot_ns)
            recorder_.forget_process(key.tgid);
    }
    assemblies_.erase(key);
}

void Assembler::close_all() {
    for (auto &[key, assembly] : assemblies_)
        if (!assembly.closed)
            close(key, assembly, !complete(key, assembly));
}

void Assembler::find_lost(std::uint64_t now_ns) {
    // Younger deaths may still have their event on the way.
    constexpr std::uint64_t settled_ns = 200'000'000;
    for (const auto tgid : recorder_.processes()) {
        const auto entry = recorder_.process(tgid);
        if (!entry || !entry->death_ns || entry->death_ns + settled_ns > now_ns)
            continue;
        if (assemblies_.contains({tgid, entry->start_boot_ns, 0}))
            continue;
        bpf::death_event event{};
        event.h = {bpf::EVENT_DEATH, EVENT_LAYOUT, entry->death_ns, tgid, entry->death_tid, entry->start_boot_ns, 0};
        event.fatal = 1;
        event.number = entry->death_signal;
        event.delivered = entry->death_signal;
        event.code = entry->death_code;
        event.address = entry->death_address;
        event.has_siginfo = entry->death_code != 0;
        event.uid = event.euid = entry->uid;
        event.parent_tgid = entry->parent_tgid;
        event.parent_start_boot_ns = entry->parent_start_boot_ns;
        std::memcpy(event.parent_comm, entry->parent_comm, sizeof(event.parent_comm));
        event.threads = entry->threads_sent + entry->threads_unsent;
        for (const auto slot : recorder_.slots_of(tgid, entry->start_boot_ns)) {
            const auto header = recorder_.header(slot);
            if (header.tid == tgid || !event.leader_comm[0])
                std::memcpy(event.leader_comm, header.comm, sizeof(event.leader_comm));
            if (header.tid == entry->death_tid)
                std::memcpy(event.comm, header.comm, sizeof(event.comm));
        }
        spdlog::warn("the death event of pid {} was lost (ring buffer full): made from the process table", tgid);
        tidy(event);
        on_death(event);
        if (entry->gone_ns)
            on_gone(event.h);
    }
}

std::size_t Assembler::open() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(assemblies_, [](const auto &item) { return !item.second.closed && item.second.rule; }));
}

} // namespace incident::daemon
