#include "daemon/assemble/assembly.h"

#include "capture/collect/collect_memory.h"
#include "capture/collect/return_probes.h"
#include "capture/decode/kernel_path.h"
#include "capture/render/render.h"
#include "daemon/assemble/triggers.h"
#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "daemon/record/thread_limits.h"
#include "rules/text/glob.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace incident::daemon {

Assembler::Assembler(Recorded &recorder, RulesInForce &rules, FactsCache &facts, AssemblyListener &listener,
                     const Clock &clock, const capture::OsRoots &os, std::string boot_id, rules::Nanoseconds deadline)
    : recorder_(recorder), rules_(rules), facts_(facts), listener_(listener), clock_(clock), os_(os),
      boot_id_(std::move(boot_id)), deadline_ns_(static_cast<std::uint64_t>(deadline.count())), ooms_(os),
      quiet_losses_(recorder.loss_counts()) {}

void Assembler::take(std::span<const std::uint8_t> bytes) {
    const auto header = event_of<bpf::event_header>(bytes);
    if (!header || header->layout != EVENT_LAYOUT)
        return;
    switch (header->kind) {
    case bpf::EVENT_DEATH:
    case bpf::EVENT_SIGNAL:
    case bpf::EVENT_SNAPSHOT:
        if (auto event = event_of<bpf::death_event>(bytes)) {
            tidy(*event);
            header->kind == bpf::EVENT_SNAPSHOT ? on_snapshot(*event) : on_death(*event);
        }
        break;
    case bpf::EVENT_THREAD:
        on_thread(bytes);
        break;
    case bpf::EVENT_MAPS:
        on_maps(bytes);
        break;
    case bpf::EVENT_RETURNS:
        returns_.insert_or_assign({header->tid, {header->thread_start_boot_ns}}, capture::return_probes_of(bytes));
        break;
    case bpf::EVENT_POINTERS:
        on_pointers(bytes);
        break;
    case bpf::EVENT_GONE:
        on_gone(*header);
        break;
    case bpf::EVENT_WATCH:
        if (const auto event = event_of<bpf::watch_event>(bytes))
            on_watch(*event);
        break;
    case bpf::EVENT_TRIGGER:
        if (auto occurrences = occurrences_of(bytes, facts_, rules_.history,
                                              [this](std::uint32_t number) { return recorder_.tracepoint(number); });
            !occurrences.empty())
            for (Occurrence &occurrence : occurrences)
                occur(std::move(occurrence));
        else
            ++counters_.outdated;
        break;
    case bpf::EVENT_PERMIT:
        if (const auto head = event_of<bpf::trigger_head>(bytes))
            listener_.on_permit(*head);
        break;
    case bpf::EVENT_STARTED:
        if (const auto head = event_of<bpf::trigger_head>(bytes))
            listener_.on_started(facts_.of(*head));
        break;
    case bpf::EVENT_OOM:
        if (const auto event = event_of<bpf::oom_event>(bytes))
            on_oom(*event);
        break;
    default: // a watch's
        if (!listener_.on_other(*header, bytes))
            ++counters_.outdated;
    }
}

void Assembler::on_watch(const bpf::watch_event &event) {
    if (event.generation != rules_.plan.generation)
        return; // its key may tell apart less than these rules do; who asked asks again
    auto facts = facts_of(os_, event);
    if (!same_program(event, facts))
        return; // the decision would be about another program's files; that program asks again itself
    // The decision is for all processes with this key, so /proc must show one that still has it.
    const auto entry = recorder_.process(event.h.tgid);
    if (entry && process_of(*entry) == process_of(event.h) && entry->identity_ns > event.h.t_ns)
        return;                // it executed or was moved meanwhile, and asks again
    facts.uid = event.key.uid; // it may have taken another since, and has asked about that one as well
    const bool watch = rules_.engine.watches(facts);
    spdlog::debug("watch {} pid {} exe {} cgroup {}: {}", facts.comm, facts.pid, facts.exe, facts.cgroup, watch);
    facts_.learn(event.key, facts);
    const std::uint64_t rules = rules_of(rules_.plan, rules_.rules(), facts);
    recorder_.give_decision(event.key, watch, rules, rules_.plan.generation);
    if (watch)
        listener_.on_watched({capture::process_of(event.h), event.key.uid});
    if (watch && (rules & rules_.plan.told())) // the kernel side would tell of it at its next system call
        listener_.on_started(facts);
}

// Offers an event to the rules; the first that fires makes the bundle.
void Assembler::ask_rules(Assembly &assembly, const rules::Event &event) {
    const auto pid = event.process.pid;
    for (const auto &decision : rules_.engine.decide(event, rules::Answers::Firings)) {
        if (decision.outcome == rules::Outcome::Suppressed) {
            ++counters_.suppressed;
            spdlog::debug("rule {}: suppressed for pid {} ({}): {}", decision.rule->name, pid, event.process.comm,
                          decision.why);
        }
        if (decision.outcome != rules::Outcome::Fire)
            continue;
        if (assembly.rule) {
            spdlog::info("rule {} fired too for pid {}; its bundle is {}'s", decision.rule->name, pid,
                         assembly.rule->name);
            ++counters_.joined;
            assembly.input.rule.fired_too.push_back(decision.rule->name);
            continue;
        }
        fire(assembly, decision);
    }
}

// Reads at once what vanishes with the process.
void Assembler::fire(Assembly &assembly, const rules::Decision &decision) {
    const rules::Rule &rule = *decision.rule;
    assembly.rule = rule;
    auto &input = assembly.input;
    if (decision.about && !input.process.event.fatal) { // an `all` rule completed by somebody else's event
        assembly.facts = *decision.about;
        auto &subject = input.process.event.h;
        subject.tgid = subject.tid = decision.about->pid;
        subject.process_start_boot_ns = subject.thread_start_boot_ns = decision.about->start_boot_ns;
        subject.start_code = subject.start_stack = 0;
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
    listener_.on_fire(decision, assembly);
    capture::CollectLimits limits;
    limits.environ = rule.context.environ;
    limits.uid = assembly.facts.uid;
    limits.cgroup = capture::cgroup_of_event(input.process.event);
    if (!rule.context.logs.empty())
        limits.wants_log = [logs = rule.context.logs](const std::string &path) {
            return rules::any_glob_matches(logs, path);
        };
    auto &subject = input.process.event.h;
    if (!subject.tgid || !subject.process_start_boot_ns)
        return; // a kernel thread that is known by its id alone
    capture::ProgramRef program{capture::program_of(subject),
                                input.process.event.fatal ||
                                    std::holds_alternative<capture::ExitTrigger>(input.trigger)};
    if (!program.program.known() && !program.last) { // what user space has seen itself is of the program of now
        program.program = capture::program_of(os_, process_of(subject));
        subject.start_code = program.program.start_code;
        subject.start_stack = program.program.start_stack;
    }
    capture::collect_process(os_, process_of(subject), limits, assembly.collected, program);
}

void Assembler::on_gone(const bpf::event_header &event) {
    const Key key{process_of(event), 0};
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
    if (key.tid || key.process.pid == 0)
        return !assembly.context_expected;
    if (assembly.perhaps_oom)
        return false; // whether it was the OOM killer may still be said
    if (!assembly.rule)
        return false; // only waits to be gone
    const auto entry = recorder_.process(key.process.pid);
    const bool same = entry && process_of(*entry) == key.process;
    // Every thread has passed, whether or not its event found room.
    return same && entry->threads_sent + entry->threads_unsent >= assembly.input.process.threads_expected &&
           assembly.input.process.threads.size() >= entry->threads_sent;
}

bool Assembler::tend(std::uint64_t now_ns, bool read_to_its_end) {
    std::vector<Key> over;
    bool again = false;
    for (auto &[key, assembly] : assemblies_) {
        const bool overdue = now_ns - std::min(now_ns, assembly.last_event_ns) > deadline_ns_;
        const bool lives_on = key.tid || key.process.pid == 0;
        const bool whole = (read_to_its_end || !lives_on) && complete(key, assembly);
        if (!assembly.closed && (whole || overdue))
            close(key, assembly, !whole);
        if (!assembly.closed) {
            again = true;
            continue;
        }
        // Closed: kept until the process is gone, so that its late threads find their place.
        const auto entry = key.tid || key.process.pid == 0 ? std::nullopt : recorder_.process(key.process.pid);
        if (!entry || process_of(*entry) != key.process || entry->gone_ns)
            over.push_back(key);
    }
    for (const auto &key : over)
        forget(key);
    if (!again && read_to_its_end) {
        quiet_losses_ = recorder_.loss_counts();
        returns_.clear(); // of threads whose own event found no room
    }
    return again;
}

void Assembler::close(const Key &key, Assembly &assembly, bool overdue) {
    assembly.closed = true;
    auto &process = assembly.input.process;
    if (auto entry = recorder_.process(key.process.pid); entry && process_of(*entry) == key.process)
        process.entry = entry;
    if (assembly.rule && process.event.h.tgid) {
        process.tallies = recorder_.tallies(process_of(process.event.h));
        process.requests = recorder_.requests_in_flight(process_of(process.event.h));
    }
    add_silent_threads(assembly);
    if (!assembly.rule)
        return;
    process.deadline_passed = overdue;
    if (!process.event.fatal && process.event.h.tgid) {
        constexpr std::chrono::milliseconds memory_deadline{100};
        capture::collect_memory(os_, {process_of(process.event.h), assembly.facts.uid},
                                capture::program_of(process.event.h), process.threads, memory_deadline,
                                assembly.collected);
        for (auto &thread : process.threads)
            keep_wanted(assembly.rule->context, thread);
    }
    capture::put_return_addresses_back(process);
    if (auto &maps = assembly.collected.files["process/maps"]; maps.empty() && !process.kernel_maps.empty()) {
        maps = std::move(process.kernel_maps);
        assembly.collected.results.push_back(
            {"kernel maps", !process.kernel_maps_cut,
             process.kernel_maps_cut ? "some mappings are missing, or the names of some" : "", 0});
    } else if (maps.empty()) {
        assembly.collected.files.erase("process/maps");
    }
    if (assembly.oom) {
        ooms_.finish(*assembly.oom, assembly.collected);
        if (std::holds_alternative<capture::OomTrigger>(assembly.input.trigger))
            assembly.input.trigger = assembly.oom->trigger;
    }
    assembly.input.losses = describe_losses(recorder_.loss_counts(), quiet_losses_, true);
    // No capture was left for it in the kernel (captures_per_second), or it found no room.
    if (key.tid && key.process.pid &&
        std::ranges::find(process.threads, key.tid, &capture::ThreadSnapshot::tid) == process.threads.end())
        assembly.input.losses.push_back(
            {"threads",
             "not captured in its own context, of which a second has only so many, and gone "
             "when it was looked at from outside",
             1});
    assembly.input.probes = recorder_.probes();
    Assembly ready;
    ready.rule = std::move(assembly.rule);
    ready.facts = assembly.facts;
    ready.input = std::move(assembly.input);
    ready.collected = std::move(assembly.collected);
    ready.dumped = assembly.dumped;
    ready.late = std::move(assembly.late);
    assembly.input.process.event = ready.input.process.event;
    assembly.input.process.gone = ready.input.process.gone;
    assembly.rule.reset();
    listener_.on_ready(std::move(ready));
}

void Assembler::forget(const Key &key) {
    if (!key.tid && key.process.pid) {
        for (const auto slot : recorder_.slots_of(key.process))
            recorder_.release(slot);
        if (const auto entry = recorder_.process(key.process.pid); entry && process_of(*entry) == key.process)
            recorder_.forget_process(key.process.pid);
    }
    assemblies_.erase(key);
}

void Assembler::close_all() {
    for (auto &[key, assembly] : assemblies_)
        if (!assembly.closed)
            close(key, assembly, !complete(key, assembly));
}

std::size_t Assembler::open() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(assemblies_, [](const auto &item) { return !item.second.closed && item.second.rule; }));
}

} // namespace incident::daemon
