#include "daemon/assembly.h"

#include "capture/collect_memory.h"
#include "capture/render.h"
#include "daemon/clocks.h"
#include "daemon/facts.h"
#include "daemon/triggers.h"

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

Assembler::Assembler(Recorder &recorder, rules::Engine &engine, const TriggerPlan &plan, capture::OsRoots os,
                     std::string boot_id, rules::Nanoseconds deadline, Hooks hooks)
    : recorder_(recorder), engine_(engine), plan_(plan), os_(os), boot_id_(std::move(boot_id)),
      deadline_ns_(static_cast<std::uint64_t>(deadline.count())), hooks_(std::move(hooks)), facts_(os), ooms_(os),
      quiet_losses_(recorder.loss_counts()) {}

void Assembler::take(std::span<const std::uint8_t> bytes) {
    const auto header = event_of<bpf::event_header>(bytes);
    if (!header || header->layout != EVENT_LAYOUT)
        return;
    switch (header->kind) {
    case bpf::EVENT_DEATH:
    case bpf::EVENT_SIGNAL:
    case bpf::EVENT_MOMENT:
        if (auto event = event_of<bpf::death_event>(bytes)) {
            tidy(*event);
            header->kind == bpf::EVENT_MOMENT ? on_moment(*event) : on_death(*event);
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
    case bpf::EVENT_TRIGGER:
        if (auto occurrence = occurrence_of(bytes, facts_, plan_, engine_.rules()))
            occur(std::move(*occurrence));
        break;
    case bpf::EVENT_STARTED:
        if (const auto head = event_of<bpf::trigger_head>(bytes))
            hooks_.on_started(facts_.of(*head));
        break;
    case bpf::EVENT_TXG:
        hooks_.on_txg(bytes);
        break;
    case bpf::EVENT_LATENCY:
        if (const auto event = event_of<bpf::latency_event>(bytes))
            hooks_.on_latency(*event);
        break;
    case bpf::EVENT_OOM:
        if (const auto event = event_of<bpf::oom_event>(bytes))
            on_oom(*event);
        break;
    }
}

void Assembler::on_watch(const bpf::watch_event &event) {
    const auto facts = facts_of(os_, event);
    const bool watch = engine_.watches(facts);
    spdlog::debug("watch {} pid {} exe {} cgroup {}: {}", facts.comm, facts.pid, facts.exe, facts.cgroup, watch);
    facts_.learn(event.key, facts);
    recorder_.give_verdict(event.key, watch, hooks_.rules_of(facts));
}

void Assembler::expect_death(std::uint32_t tgid, std::uint64_t start_boot_ns) {
    constexpr std::size_t most = 1024; // [safety] dumps_per_hour keeps it far below
    if (expected_deaths_.size() >= most)
        expected_deaths_.clear();
    expected_deaths_.emplace(tgid, start_boot_ns);
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
    assembly.moment_seen = assembly.context_expected = true;
    decide_death(assembly);
    assemblies_.insert_or_assign(key, std::move(assembly));
}

// The rules about signals, then those about ends, then those about the OOM killer.
void Assembler::decide_death(Assembly &assembly) {
    const auto &event = assembly.input.process.event;
    const auto &entry = assembly.input.process.entry;
    if (event.fatal && expected_deaths_.erase({event.h.tgid, event.h.process_start_boot_ns})) {
        spdlog::info("pid {} ({}) dies of the signal sent for an earlier incident", event.h.tgid, assembly.facts.comm);
        return;
    }
    ask_rules(assembly, signal_event(event, entry, assembly.facts));
    if (event.fatal)
        ask_rules(assembly, {event.h.t_ns, assembly.facts, rules::ExitEvent{0, event.number}});
    if (plan_.oom && event.fatal && entry && entry->kernel_kill_ns) {
        assembly.perhaps_oom = true;
        assembly.oom = ooms_.take(event.h.tgid);
        decide_oom(assembly);
    }
    if (!assembly.rule && !assembly.perhaps_oom)
        ++counters_.unmatched;
    if (assembly.rule && !event.fatal)
        look_at_threads(assembly);
}

void Assembler::decide_oom(Assembly &assembly) {
    if (!assembly.oom || assembly.closed)
        return;
    assembly.perhaps_oom = false;
    const auto &event = assembly.input.process.event;
    const bool had_rule = assembly.rule.has_value();
    ask_rules(assembly, {event.h.t_ns, assembly.facts, rules::OomEvent{assembly.oom->cgroup}});
    if (!had_rule && assembly.rule)
        for (auto &thread : assembly.input.process.threads)
            keep_wanted(assembly.rule->context, thread);
}

// A thread's process: its own, one that an assembly knows it in, or as /proc says.
std::uint32_t Assembler::process_of(std::uint32_t tid) const {
    for (const auto &[key, assembly] : assemblies_)
        if (key.tgid == tid ||
            std::ranges::any_of(assembly.input.process.threads, [&](const auto &thread) { return thread.tid == tid; }))
            return key.tgid;
    for (std::uint32_t slot = 0; slot < recorder_.slots(); ++slot)
        if (const auto header = recorder_.header(slot); header.tid == tid && header.state != bpf::SLOT_FREE)
            return header.tgid;
    return tid;
}

void Assembler::on_oom(const bpf::oom_event &event) {
    const std::uint32_t victim = process_of(event.victim);
    ooms_.note(event, victim);
    for (auto &[key, assembly] : assemblies_)
        if (key.tgid == victim && key.tid == 0 && assembly.perhaps_oom && !assembly.closed) {
            assembly.oom = ooms_.take(victim);
            decide_oom(assembly);
            return;
        }
}

// Offers an event to the rules; the first that fires makes the bundle.
void Assembler::ask_rules(Assembly &assembly, const rules::Event &event) {
    const auto pid = event.process.pid;
    for (const auto &decision : engine_.decide(event, rules::Answers::Firings)) {
        if (decision.verdict == rules::Verdict::Suppressed) {
            ++counters_.suppressed;
            spdlog::debug("rule {}: suppressed for pid {} ({}): {}", decision.rule->name, pid, event.process.comm,
                          decision.why);
        }
        if (decision.verdict != rules::Verdict::Fire)
            continue;
        if (assembly.rule) {
            spdlog::info("rule {} fired too for pid {}; its bundle is {}'s", decision.rule->name, pid,
                         assembly.rule->name);
            continue;
        }
        fire(assembly, decision);
        if (std::holds_alternative<rules::OomEvent>(event.what))
            assembly.input.trigger = assembly.oom->trigger;
    }
}

// Reads at once what vanishes with the process.
void Assembler::fire(Assembly &assembly, const rules::Decision &decision) {
    const rules::Rule &rule = *decision.rule;
    assembly.rule = rule;
    auto &input = assembly.input;
    if (decision.about && !input.process.event.fatal) { // an `all` rule completed by somebody else's event
        assembly.facts = *decision.about;
        auto &whom = input.process.event.h;
        whom.tgid = whom.tid = decision.about->pid;
        whom.process_start_boot_ns = whom.thread_start_boot_ns = decision.about->start_boot_ns;
        input.process.event.comm[0] = input.process.event.leader_comm[0] = 0;
        decision.about->comm.copy(input.process.event.leader_comm, COMM_LEN - 1);
        assembly.context_expected = false;
        assembly.dumped = 0;
    }
    input.rule = {rule.name,
                  rule.conditions[decision.condition].kind,
                  rule.text,
                  fmt::format("{}:{}", rule.at.file, rule.at.line),
                  decision.suppressed_before,
                  decision.condition};
    for (const auto &match : decision.matches)
        input.matches.push_back({match.t_ns, match.value, match.condition});
    input.matches_total = decision.matches_total;
    input.value_total = decision.value_total;
    hooks_.on_fire(decision, assembly);
    capture::CollectLimits limits;
    limits.environ = rule.context.environ;
    const auto &whom = input.process.event.h;
    if (whom.tgid && whom.process_start_boot_ns) // not of a kernel thread known by its id alone
        capture::collect_process(os_, whom.tgid, whom.process_start_boot_ns, limits, assembly.collected);
}

void Assembler::occur(Occurrence occurrence) {
    hooks_.on_occurrence(occurrence);
    Assembly assembly;
    assembly.facts = occurrence.event.process;
    assembly.input.trigger = std::move(occurrence.trigger);
    auto &event = assembly.input.process.event;
    event.h = occurrence.whom;
    event.h.t_ns = occurrence.event.t_ns;
    event.h.layout = EVENT_LAYOUT;
    event.uid = event.euid = assembly.facts.uid;
    assembly.facts.comm.copy(event.leader_comm, COMM_LEN - 1);
    occurrence.comm.copy(event.comm, COMM_LEN - 1);
    assembly.input.clocks = read_clocks(boot_id_);
    assembly.input.signal_seen_ns = assembly.last_event_ns = assembly.input.clocks.monotonic_ns;
    assembly.context_expected = occurrence.captured;
    assembly.dumped = occurrence.dumped;
    ask_rules(assembly, occurrence.event);
    if (!assembly.rule) {
        ++counters_.unmatched;
        return;
    }
    const auto &whom = event.h;
    const Key key{whom.tgid, whom.process_start_boot_ns, whom.tid};
    if (const auto open = assemblies_.find(key); open != assemblies_.end() && !open->second.closed) {
        spdlog::info("rule {} fired for thread {} while {}'s bundle of it was being made: one bundle",
                     assembly.rule->name, whom.tid, open->second.rule ? open->second.rule->name : std::string());
        return;
    }
    if (whom.tgid)
        assembly.input.process.entry = recorder_.process(whom.tgid);
    look_at_threads(assembly);
    assemblies_.insert_or_assign(key, std::move(assembly));
}

// All threads of a process that lives on; their events are read later in the same turn.
void Assembler::look_at_threads(Assembly &assembly) {
    const auto &whom = assembly.input.process.event.h;
    if (whom.tgid == 0)
        return;
    if (auto taken = recorder_.snapshot(whom.tgid); !taken)
        assembly.collected.results.push_back({"threads", false, taken.error().what, 0});
}

// Is that living process the key's?  A kernel thread may be known by its id alone.
bool Assembler::is_of(const Key &key, const bpf::event_header &event) {
    return key.tid != 0 && key.tgid == event.tgid &&
           (key.start_boot_ns == 0 || key.start_boot_ns == event.process_start_boot_ns);
}

// The process as the kernel side saw it: in the thread's own context, or from outside,
// which knows less.
void Assembler::on_moment(const bpf::death_event &event) {
    const bool own_context = event.args_length != 0 || event.auxv[0] != 0;
    for (auto &[key, assembly] : assemblies_) {
        if (!is_of(key, event.h) || assembly.closed)
            continue;
        auto &known = assembly.input.process.event;
        assembly.input.process.threads_expected = event.threads;
        if (assembly.moment_seen && (!own_context || known.fatal || known.number))
            continue;
        const auto head = known.h;
        char comm[COMM_LEN];
        std::memcpy(comm, known.comm, sizeof(comm));
        known = event;
        known.h = head; // when and in which thread it happened
        if (!head.process_start_boot_ns)
            known.h.process_start_boot_ns = event.h.process_start_boot_ns;
        if (comm[0])
            std::memcpy(known.comm, comm, sizeof(comm));
        if (assembly.facts.exe.empty()) // gone before /proc was read
            assembly.facts.exe = path_of(event.exe);
        if (assembly.facts.cgroup.empty()) {
            assembly.facts.cgroup = cgroup_of(event.cgroup, event.cgroup_parts);
            assembly.facts.unit = capture::unit_of_cgroup(assembly.facts.cgroup);
        }
        assembly.moment_seen = true;
    }
}

// The assembly a thread's event belongs to; seen from outside it may belong to several.
Assembly *Assembler::assembly_for(const bpf::thread_event &event) {
    const bool dying = event.role == bpf::ROLE_CRASHED || event.role == bpf::ROLE_SIBLING;
    const auto found = assemblies_.find({event.h.tgid, event.h.process_start_boot_ns, dying ? 0 : event.h.tid});
    return found == assemblies_.end() ? nullptr : &found->second;
}

void Assembler::on_thread(std::span<const std::uint8_t> bytes) {
    auto event = event_of<bpf::thread_event>(bytes);
    if (!event)
        return;
    tidy(*event);
    auto stack = bytes.subspan(sizeof(bpf::thread_event));
    stack = stack.first(std::min<std::size_t>(stack.size(), event->stack_length));
    if (event->role == bpf::ROLE_LIVING) {
        for (auto &[key, assembly] : assemblies_)
            if (is_of(key, event->h) && !assembly.closed)
                add_thread(assembly, *event, stack);
        return;
    }
    Assembly *assembly = assembly_for(*event);
    if (!assembly || assembly->closed) {
        // Its death event was lost (find_lost will tell), or it came after the deadline.
        const bool pinned = event->role == bpf::ROLE_CRASHED || event->role == bpf::ROLE_SIBLING;
        if (assembly && pinned && event->slot != ~0u)
            recorder_.release(event->slot);
        return;
    }
    add_thread(*assembly, *event, stack);
}

void Assembler::add_thread(Assembly &assembly, const bpf::thread_event &event, std::span<const std::uint8_t> stack) {
    assembly.last_event_ns = clock_ns(CLOCK_MONOTONIC);
    const bool pinned = event.role == bpf::ROLE_CRASHED || event.role == bpf::ROLE_SIBLING;
    const bool in_context = event.role == bpf::ROLE_TRIGGERED || event.role == bpf::ROLE_SIGNALLED;
    if (!assembly.rule && !assembly.perhaps_oom) {
        if (pinned && event.slot != ~0u)
            recorder_.release(event.slot);
        return;
    }
    if (in_context)
        assembly.context_expected = false;
    auto &threads = assembly.input.process.threads;
    if (const auto known = std::ranges::find(threads, event.h.tid, &capture::ThreadSnapshot::tid);
        known != threads.end()) {
        if (event.role == bpf::ROLE_LIVING)
            return; // its own capture is better
        threads.erase(known);
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
    if (assembly.rule)
        keep_wanted(assembly.rule->context, thread);
    if (event.h.tid == assembly.input.process.event.h.tid)
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
                thread.missing = "no registers: it had no event (see losses)";
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
    const auto trigger = std::ranges::find(process.threads, process.event.h.tid, &capture::ThreadSnapshot::tid);
    if (trigger != process.threads.end())
        std::rotate(process.threads.begin(), trigger, trigger + 1);
    if (process.threads.size() > 1)
        std::ranges::sort(process.threads.begin() + (trigger != process.threads.end() ? 1 : 0), process.threads.end(),
                          {}, &capture::ThreadSnapshot::tid);
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
    // Of a living process the snapshot's events came with the last reading of the ring buffer.
    if (key.tid || key.tgid == 0)
        return !assembly.context_expected;
    if (!assembly.rule && !assembly.perhaps_oom)
        return false; // only waits to be gone
    if (!assembly.rule)
        return false; // whether it was the OOM killer may still be said
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
        const auto entry = key.tid || key.tgid == 0 ? std::nullopt : recorder_.process(key.tgid);
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
    if (!process.event.fatal && process.event.h.tgid) {
        constexpr std::chrono::milliseconds memory_deadline{100};
        capture::collect_memory(os_, process.event.h.tgid, process.event.h.process_start_boot_ns, process.threads,
                                memory_deadline, assembly.collected);
        for (auto &thread : process.threads)
            keep_wanted(assembly.rule->context, thread);
    }
    if (assembly.oom) {
        ooms_.finish(*assembly.oom, assembly.collected);
        if (std::holds_alternative<capture::OomTrigger>(assembly.input.trigger))
            assembly.input.trigger = assembly.oom->trigger;
    }
    assembly.input.losses = describe_losses(recorder_.loss_counts(), quiet_losses_, true);
    assembly.input.probes = recorder_.probes();
    Assembly ready;
    ready.rule = std::move(assembly.rule);
    ready.facts = assembly.facts;
    ready.input = std::move(assembly.input);
    ready.collected = std::move(assembly.collected);
    ready.dumped = assembly.dumped;
    assembly.input.process.event = ready.input.process.event;
    assembly.input.process.gone = ready.input.process.gone;
    assembly.rule.reset();
    hooks_.on_ready(std::move(ready));
}

void Assembler::forget(const Key &key) {
    if (!key.tid && key.tgid) {
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
