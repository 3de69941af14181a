#include "daemon/watch/watches.h"

namespace incident::daemon {

void Watches::apply(std::uint64_t now_ns) {
    for (const auto &watch : all_) {
        watch->apply(now_ns);
        watch->wake();
    }
}

void Watches::describe(ConditionStates &states) const {
    for (const auto &watch : all_)
        watch->describe(states);
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
    bool reload = false;
    for (const auto &watch : all_)
        reload |= watch->tend(now_ns);
    return reload;
}

bool Watches::take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) {
    for (const auto &watch : all_)
        if (const auto taken = watch->take(header, bytes))
            return *taken;
    return true;
}

void Watches::started(const rules::ProcessFacts &process) {
    for (const auto &watch : all_)
        watch->started(process);
}

void Watches::before_rules(Occurrence &occurrence) {
    for (const auto &watch : all_)
        watch->before_rules(occurrence);
}

void Watches::add_context(const FiredIncident &incident) const {
    for (const auto &watch : all_)
        watch->add_context(incident);
}

void Watches::add_status(nlohmann::ordered_json &status) const {
    for (const auto &watch : all_)
        watch->add_status(status);
}

void Watches::prepare_measurement() {
    for (const auto &watch : all_)
        watch->prepare_measurement();
}

void Watches::begin_measurement() {
    for (const auto &watch : all_)
        watch->begin_measurement();
}

void Watches::end_measurement(const CostMeter &meter, double seconds, CostMeasurement &measured) const {
    for (const auto &watch : all_)
        watch->end_measurement(meter, seconds, measured);
}

std::optional<std::vector<std::string>> Watches::conditions_of(std::string_view probes) const {
    for (const auto &watch : all_)
        if (auto conditions = watch->conditions_of(probes))
            return conditions;
    return std::nullopt;
}

void Watches::obey(std::span<const CostLimit> limits, std::uint64_t now_ns) {
    for (const auto &watch : all_)
        watch->obey(limits, now_ns);
}

} // namespace incident::daemon
