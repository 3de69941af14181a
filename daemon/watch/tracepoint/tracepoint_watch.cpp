#include "daemon/watch/tracepoint/tracepoint_watch.h"

#include "daemon/os/tracefs.h"

#include <fmt/format.h>

#include <utility>

namespace incident::daemon {

TracepointWatch::Numbers TracepointWatch::numbers() const {
    Numbers now;
    for (const auto &tracepoint : context_.rules.plan.tracepoints)
        now.emplace(fmt::format("{}:{}", tracepoint.category, tracepoint.name),
                    tracepoint_number(tracepoint.category, tracepoint.name));
    return now;
}

void TracepointWatch::apply(std::uint64_t) {
    seen_ = numbers();
}

// A tracepoint that is there and could not be attached has not changed.
bool TracepointWatch::tend(std::uint64_t) {
    Numbers now = numbers();
    const bool changed = now != seen_;
    seen_ = std::move(now);
    return changed;
}

void TracepointWatch::add_context(const FiredIncident &incident) const {
    if (auto *tracepoint = std::get_if<capture::TracepointTrigger>(&incident.input.trigger))
        tracepoint->format = tracepoint_format(tracepoint->category, tracepoint->name).value_or("");
}

} // namespace incident::daemon
