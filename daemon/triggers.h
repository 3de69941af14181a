// What the kernel side's trigger events say, in the words of rules and bundles.
#pragma once

#include "daemon/facts_cache.h"
#include "daemon/occurrence.h"
#include "daemon/rule_history.h"

#include <optional>
#include <span>

namespace incident::daemon {

// One EVENT_TRIGGER.  nullopt: of rules that have since been changed or removed, or too short.  One that the kernel
// side has signalled for is told of in any case.
std::optional<Occurrence> occurrence_of(std::span<const std::uint8_t> bytes, FactsCache &facts,
                                        const RuleHistory &history);

} // namespace incident::daemon
