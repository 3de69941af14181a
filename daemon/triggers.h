// What the kernel side's trigger events say, in the words of rules and bundles.
#pragma once

#include "daemon/facts_cache.h"
#include "daemon/occurrence.h"
#include "daemon/trigger_plan.h"

#include <optional>
#include <span>

namespace incident::daemon {

// One EVENT_TRIGGER.  nullopt: too short, or of a kind or condition that is no more.
std::optional<Occurrence> occurrence_of(std::span<const std::uint8_t> bytes, FactsCache &facts, const TriggerPlan &plan,
                                        std::span<const rules::Rule> rules);

} // namespace incident::daemon
