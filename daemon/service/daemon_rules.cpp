// What rules set in motion besides the ring buffer: what is looked at by the clock, what is
// added to a trigger when its rule fires, and what is kept, light, or dumped in the end.
#include "daemon/service/daemon.h"

#include "capture/collect/collect_zfs.h"
#include "capture/render/render.h"
#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "daemon/os/tracefs.h"
#include "rules/model/match.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace incident::daemon {

// Hands the rules to everything that works for them.
void Daemon::apply_rules() {
    plan_ = plan_triggers(engine_->rules(), config_.safety.allow_dump);
    history_.begin(plan_, engine_->rules(), [](const TriggerPlan::Tracepoint &tracepoint) {
        return tracepoint_format(tracepoint.category, tracepoint.name).value_or("");
    });
    recorder_->apply(*engine_, plan_);
    tracepoints_have_changed(); // from what has just been applied
    record_durations();
    recorder_->allow_captures(captures_per_second);
    allow_dumps();
    memory_.set_rules(engine_->rules());
    latency_->set_rules(engine_->rules(), plan_, clock_ns(CLOCK_MONOTONIC));
    heaps_->set_rules(engine_->rules(), config_.heap);
    rules::Nanoseconds window{std::chrono::seconds(1)};
    std::vector<std::uint64_t> sync_thresholds;
    for (const auto &rule : engine_->rules())
        for (const auto &condition : rule.conditions)
            if (const auto *txg = std::get_if<rules::TxgCondition>(&condition.what); txg && rule.enabled)
                sync_thresholds.push_back(static_cast<std::uint64_t>(txg->threshold.count()));
    txg_->set_thresholds(std::move(sync_thresholds));
    for (const auto &rule : engine_->rules())
        for (const auto &condition : rule.conditions)
            if (std::holds_alternative<rules::ReclaimCondition>(condition.what))
                window = std::max(window, condition.tally.window);
    reclaim_.set_window(window);
}

// What keeps rules from doing all they say.
void Daemon::warn_of_states() const {
    const ConditionStates states = condition_states();
    for (const auto &rule : engine_->rules())
        if (const auto state = state_of(rule, recorder_->families(), states);
            state.state != "active" && state.state != "disabled")
            spdlog::warn("rule {} is {}: {}", rule.name, state.state, state.reason);
}

ConditionStates Daemon::condition_states() const {
    ConditionStates states;
    latency_->describe(states);
    heaps_->describe(states);
    const capture::ProbeState zfs = txg_->state();
    for (const auto &rule : engine_->rules())
        for (std::size_t i = 0; i < rule.conditions.size(); ++i)
            if (std::holds_alternative<rules::TxgCondition>(rule.conditions[i].what))
                states[fmt::format("{}:{}", rule.name, i)] = {zfs.state, zfs.reason};
    describe_steps(states);
    return states;
}

void Daemon::on_latency() {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    const std::uint64_t next = latency_->look(
        assembler_->facts(), now, [this](Occurrence occurrence) { assembler_->occur(std::move(occurrence)); });
    if (next != OverdueScanner::never)
        latency_timer_.arm_in(next - std::min(next, clock_ns(CLOCK_MONOTONIC)));
}

void Daemon::on_txg() {
    for (const TxgStall &stall : txg_->look(TxgWatch::Now::read()))
        offer(stall);
    on_events(); // the snapshots' own
    if (const std::uint64_t next = txg_->next_look_ns())
        txg_timer_.arm_in(next - std::min(next, clock_ns(CLOCK_MONOTONIC)));
}

// A sync of a ZFS pool is the host's: no process asked for it.  The thread is the pool's own.
void Daemon::offer(const TxgStall &stall) {
    Occurrence made;
    made.event.t_ns = stall.t_ns;
    auto &[txg, told_ns] = txg_told_[stall.pool];
    if (txg != stall.txg)
        told_ns = 0;
    txg = stall.txg;
    made.event.what = rules::TxgEvent{stall.pool, stall.elapsed_ns, stall.in_flight, told_ns};
    if (stall.in_flight)
        told_ns = std::max(told_ns, stall.passed_ns);
    capture::TxgTrigger trigger;
    trigger.pool = stall.pool;
    trigger.txg = stall.txg;
    trigger.start_ns = stall.start_ns;
    trigger.elapsed_ns = stall.elapsed_ns;
    trigger.in_flight = stall.in_flight;
    trigger.source = txg_->state().reason;
    made.trigger = std::move(trigger);
    made.whom.t_ns = stall.t_ns;
    made.whom.tgid = made.whom.tid = stall.tid;
    made.comm = "txg_sync";
    assembler_->occur(std::move(made));
}

void Daemon::on_memory() {
    if (!memory_.interval_ns())
        return;
    memory_.sample(*recorder_, assembler_->facts(), engine_->rules(), clock_ns(CLOCK_MONOTONIC),
                   [this](Occurrence occurrence) { assembler_->occur(std::move(occurrence)); });
    on_events(); // the snapshots' own
    memory_timer_.arm_in(memory_.interval_ns());
}

void Daemon::on_deadlines() {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    const std::uint64_t next =
        blocked_.look(*recorder_, plan_, assembler_->facts(), now,
                      [this](Occurrence occurrence) { assembler_->occur(std::move(occurrence)); });
    if (!next)
        return;
    on_events();
    deadline_timer_.arm_in(next - std::min(next, clock_ns(CLOCK_MONOTONIC)));
}

// A module has brought a tracepoint that a rule waits for, or has taken one away, or has come back with others.  One
// that stands there and cannot be attached is no news.
bool Daemon::tracepoints_have_changed() {
    std::map<std::string, std::optional<std::uint32_t>> now;
    for (const auto &tracepoint : plan_.tracepoints)
        now.emplace(fmt::format("{}:{}", tracepoint.category, tracepoint.name),
                    tracepoint_number(tracepoint.category, tracepoint.name));
    return std::exchange(tracepoints_seen_, now) != now;
}

// What the kernel side needs to know for sending signals by itself, every second; without it it sends none.
void Daemon::allow_dumps() {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    dumper_->hour().left(now);
    if (!plan_.dumping()) {
        dumper_->hour().take_back_lent(now);
        recorder_->set_dump_terms({.until_ns = 0, .space_bytes = 0, .round = permit_round_});
        return;
    }
    Dumper::Host host = dumper_->host();
    if (!host.possible)
        dumper_->hour().take_back_lent(now);
    else if (auto lent = dumper_->hour().lend(now); !lent)
        spdlog::debug("the kernel side may send no signal by itself: {}", lent.error().what);
    const bool changed = host.settings != core_settings_;
    if (changed) {
        core_settings_ = std::move(host.settings);
        ++permit_round_;
    }
    recorder_->set_dump_terms(
        {.until_ns = host.possible ? now + dump_terms_ns : 0, .space_bytes = host.space, .round = permit_round_});
    if (changed)
        recorder_->decide_again(); // and ask for permits
}

// Answers a process that a rule with a dump is about: whether the kernel side may do it by itself.  What makes it this
// very process is read before anything is found out about it: where it changes meanwhile, the permit is void.
void Daemon::permit(const bpf::trigger_head &asked) {
    const auto entry = recorder_->process(asked.h.tgid);
    if (asked.generation != plan_.generation || !entry || entry->start_boot_ns != asked.h.process_start_boot_ns)
        return;
    bpf::permit permit{};
    permit.start_boot_ns = entry->start_boot_ns;
    permit.identity_ns = entry->identity_ns;
    permit.key = asked.key;
    permit.generation = plan_.generation;
    permit.round = permit_round_;
    permit.tgid = asked.h.tgid;
    std::map<int, Dumper::Look> looks; // by signal
    for (const auto &assigned : plan_.assigned) {
        const auto signal = static_cast<int>(plan_.settings[assigned.bit].dump_signal);
        const rules::Rule *rule = engine_->rule(assigned.rule);
        if (!signal || !rule || !(asked.rules >> assigned.bit & 1))
            continue;
        auto look = looks.find(signal);
        if (look == looks.end())
            look = looks.emplace(signal, dumper_->look(permit.tgid, permit.start_boot_ns, signal)).first;
        const auto &[objection, now, core_limit] = look->second;
        if (!objection.empty() || (permit.rules && core_limit != permit.core_limit) ||
            !objection_to(*rule, now).empty() || now.uid != asked.key.uid || now.comm != text_of(asked.key.comm)) {
            spdlog::debug("rule {}: no permit for pid {}: {}", assigned.rule, permit.tgid, objection);
            continue;
        }
        permit.rules |= 1ull << assigned.bit;
        permit.core_limit = core_limit;
    }
    recorder_->give_permit(permit); // also a refusal: then it is not asked about again
}

// Why that rule, as it was when it fired, does not ask for a dump of the process as it is now; "" it does.
std::string Daemon::objection_to(const rules::Rule &fired, const rules::ProcessFacts &now) const {
    const rules::Rule *rule = engine_->rule(fired.name);
    if (!rule || !rule->enabled || !rule->dump || rule->text != fired.text)
        return "the rule has been changed or removed since it fired";
    if (const std::string why = rules::mismatch(rule->match, now); !why.empty())
        return "the rule is not about the process as it is now: " + why;
    return {};
}

void Daemon::on_occurrence(Occurrence &occurrence) {
    if (auto *blocked = std::get_if<rules::BlockedEvent>(&occurrence.event.what); blocked && !blocked->in_flight)
        blocked->told_ns =
            blocked_.told_ns(occurrence.whom.tid, std::get<capture::BlockedTrigger>(occurrence.trigger).event.from_ns);
    if (const auto *reclaim = std::get_if<capture::ReclaimTrigger>(&occurrence.trigger))
        reclaim_.note(reclaim->last, occurrence.event.process, occurrence.comm);
}

// What only now, and only those who watch, can add to a trigger.
void Daemon::on_fire(const rules::Decision &decision, Assembly &assembly) {
    const auto &condition = decision.rule->conditions[decision.condition].what;
    auto &trigger = assembly.input.trigger;
    const auto &died = assembly.input.process.event;
    assembly.input.cost = cost_record();
    assembly.heap = heaps_->source(died.h.tgid, died.h.process_start_boot_ns, died.fatal != 0);
    if (auto *reclaim = std::get_if<capture::ReclaimTrigger>(&trigger))
        reclaim_.describe(*reclaim, assembly.collected);
    if (auto *blocked = std::get_if<capture::BlockedTrigger>(&trigger))
        if (const auto *wanted = std::get_if<rules::BlockedCondition>(&condition))
            blocked->threshold_ns = static_cast<std::uint64_t>(wanted->threshold.count());
    if (auto *txg = std::get_if<capture::TxgTrigger>(&trigger)) {
        if (const auto *wanted = std::get_if<rules::TxgCondition>(&condition))
            txg->threshold_ns = static_cast<std::uint64_t>(wanted->threshold.count());
        capture::collect_zfs({}, {}, assembly.collected);
    }
    if (auto *tracepoint = std::get_if<capture::TracepointTrigger>(&trigger))
        tracepoint->format = tracepoint_format(tracepoint->category, tracepoint->name).value_or("");
    if (auto *memory = std::get_if<capture::MemoryTrigger>(&trigger))
        if (const auto *wanted = std::get_if<rules::MemoryCondition>(&condition); wanted && wanted->growth) {
            const std::uint64_t now = assembly.input.process.event.h.t_ns,
                                from = now - std::min(now, static_cast<std::uint64_t>(wanted->within.count()));
            std::uint64_t least = memory->rss;
            for (const auto &[t_ns, bytes] : memory->samples)
                if (t_ns >= from)
                    least = std::min(least, bytes);
            memory->growth = memory->rss - least;
        }
}

// The storm policy: of many alike some are kept whole, some light, the rest counted.
bool Daemon::keep(Assembly &assembly) {
    auto &input = assembly.input;
    const std::string rule = input.rule.name + " ";
    const auto answer = storm_->judge(rule + capture::incident_signature(input), rule + capture::incident_kind(input),
                                      input.process.event.h.t_ns);
    input.alike = answer.alike;
    input.alike_counted = answer.counted_before;
    if (answer.keep == rules::Keep::Count) {
        ++counters_.counted;
        spdlog::info("only counted for pid {} ({}): the {}th of {} within {} s", input.process.event.h.tgid,
                     assembly.facts.comm, answer.alike, answer.signature,
                     std::chrono::duration_cast<std::chrono::seconds>(config_.storm.window).count());
        return false;
    }
    if (answer.keep == rules::Keep::Light) {
        make_light(assembly);
    } else if (writer_->crowded()) {
        make_light(assembly);
        input.losses.push_back({"files and other threads' stacks",
                                fmt::format("kept light: {} incidents waited to be written", writer_->pending()), 1});
    }
    return true;
}

void Daemon::make_light(Assembly &assembly) {
    auto &input = assembly.input;
    input.light = true;
    std::erase_if(assembly.collected.files, [](const auto &file) {
        return file.first != "process/maps" && file.first != "process/cmdline" && file.first != "process/cgroup";
    });
    for (auto &thread : input.process.threads)
        if (thread.tid != input.process.event.h.tid)
            thread.stack.clear();
}

void Daemon::dump(Assembly &assembly) {
    const auto &whom = assembly.input.process.event.h;
    const auto now = clock_ns(CLOCK_MONOTONIC);
    auto &record = assembly.input.dump;
    if (assembly.dumped)
        record = {.asked = true, .sent = true, .signal = assembly.dumped, .by_kernel = true};
    else if (assembly.rule->dump)
        record = dumper_->dump(*assembly.rule->dump, assembly.facts, assembly.input.process.event.dumpable, now,
                               [&](const rules::ProcessFacts &is) { return objection_to(*assembly.rule, is); });
    if (!record.asked)
        return;
    if (record.sent) {
        if (record.by_kernel)
            allow_dumps(); // the next
        else
            assembler_->expect_death(whom.tgid, whom.process_start_boot_ns);
        spdlog::info("rule {}: {} sent to pid {} ({}) by the {}", assembly.rule->name, record.signal, whom.tgid,
                     assembly.facts.comm, record.by_kernel ? "kernel side" : "daemon");
    } else {
        spdlog::warn("rule {}: pid {} ({}) is not made to dump core: {}", assembly.rule->name, whom.tgid,
                     assembly.facts.comm, record.refused);
    }
}

} // namespace incident::daemon
