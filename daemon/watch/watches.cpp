#include "daemon/watch/watches.h"

#include "daemon/os/clocks.h"
#include "daemon/watch/running.h"

namespace incident::daemon {

void Watches::apply(std::uint64_t now_ns) {
    seen_.clear();
    for (const auto &watch : all_) {
        watch->apply(now_ns);
        watch->wake();
    }
}

void Watches::poll(std::uint64_t now_ns) {
    for (const auto &watch : all_)
        watch->poll_when_due(now_ns);
}

std::uint64_t Watches::due_ns() const {
    std::uint64_t due = Watch::never;
    for (const auto &watch : all_)
        due = std::min(due, watch->due_ns());
    return due;
}

bool Watches::tend(std::uint64_t now_ns) {
    find_untold(now_ns);
    bool reload = false;
    for (const auto &watch : all_)
        reload |= watch->tend(now_ns);
    return reload;
}

void Watches::started(const rules::ProcessFacts &process) {
    for (const auto &watch : all_)
        watch->started(process);
}

void Watches::find_untold(std::uint64_t now_ns) {
    const RulesInForce &rules = context_.rules;
    if (!rules.plan.told() || !pace_.due(context_.recorder.loss_counts()[bpf::LOSS_WATCH_EVENT], now_ns))
        return;
    each_running(context_.os, context_.recorder, [&](const RunningProcess &running) {
        if (!seen_.is_new(running.process, running.program))
            return;
        const auto &facts = context_.facts.of(running.process, running.entry, running.comm);
        if (rules_of(rules.plan, rules.rules(), facts) & rules.plan.told())
            started(facts);
    });
    seen_.end_look();
    pace_.looked(now_ns, clock_ns(CLOCK_MONOTONIC));
}

bool Watches::take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) {
    for (const auto &watch : all_)
        if (const auto taken = watch->take(header, bytes))
            return *taken;
    return true;
}

std::optional<std::vector<std::string>> Watches::conditions_of(std::string_view probes) const {
    for (const auto &watch : all_)
        if (auto conditions = watch->conditions_of(probes))
            return conditions;
    return std::nullopt;
}

} // namespace incident::daemon
