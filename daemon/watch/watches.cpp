#include "daemon/watch/watches.h"

namespace incident::daemon {

void Watches::apply(std::uint64_t now_ns) {
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

std::optional<std::vector<std::string>> Watches::conditions_of(std::string_view probes) const {
    for (const auto &watch : all_)
        if (auto conditions = watch->conditions_of(probes))
            return conditions;
    return std::nullopt;
}

} // namespace incident::daemon
