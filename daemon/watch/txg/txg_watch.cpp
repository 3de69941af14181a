#include "daemon/watch/txg/txg_watch.h"

#include "capture/collect/collect_zfs.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

TxgWatch::TxgWatch(const WatchContext &context) : Watch(context), syncs_(context.os, TxgProbes::of(context.recorder)) {}

void TxgWatch::apply(std::uint64_t) {
    std::vector<std::uint64_t> thresholds;
    for (const auto &rule : context_.rules.rules())
        for (const auto &condition : rule.conditions)
            if (const auto *txg = std::get_if<rules::TxgCondition>(&condition.what); txg && rule.enabled)
                thresholds.push_back(static_cast<std::uint64_t>(txg->threshold.count()));
    syncs_.set_thresholds(std::move(thresholds));
}

void TxgWatch::describe(ConditionStates &states) const {
    const capture::ProbeState zfs = syncs_.state();
    for (const auto &rule : context_.rules.rules())
        for (std::size_t i = 0; i < rule.conditions.size(); ++i)
            if (std::holds_alternative<rules::TxgCondition>(rule.conditions[i].what))
                states[fmt::format("{}:{}", rule.name, i)] = {zfs.state, zfs.reason};
}

std::uint64_t TxgWatch::poll(std::uint64_t) {
    for (const TxgStall &stall : syncs_.look(TxgSyncs::Now::read()))
        offer(stall);
    const std::uint64_t next = syncs_.next_look_ns();
    return next ? next : never;
}

std::optional<bool> TxgWatch::take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) {
    if (header.kind != bpf::EVENT_TXG)
        return std::nullopt;
    if (const auto stall = syncs_.on_event(bytes))
        offer(*stall);
    return true; // what is below today's thresholds was about none that a rule still has
}

// A sync of a ZFS pool is the host's: no process asked for it.  The thread is the pool's own.
void TxgWatch::offer(const TxgStall &stall) {
    Occurrence made;
    made.event.t_ns = stall.t_ns;
    auto &[txg, told_ns] = told_[stall.pool];
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
    trigger.source = syncs_.state().reason;
    made.trigger = std::move(trigger);
    made.subject.t_ns = stall.t_ns;
    made.subject.tgid = made.subject.tid = stall.tid;
    made.comm = "txg_sync";
    context_.occur(std::move(made));
}

void TxgWatch::add_context(const FiredIncident &incident) const {
    auto *txg = std::get_if<capture::TxgTrigger>(&incident.input.trigger);
    if (!txg)
        return;
    if (const auto *wanted = incident.condition<rules::TxgCondition>())
        txg->threshold_ns = static_cast<std::uint64_t>(wanted->threshold.count());
    capture::collect_zfs({}, {}, incident.collected);
}

} // namespace incident::daemon
