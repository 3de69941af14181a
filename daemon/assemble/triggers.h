// What the kernel side's trigger events say, in the words of rules and bundles.
#pragma once

#include "daemon/facts/facts_cache.h"
#include "daemon/facts/occurrence.h"
#include "daemon/plan/rule_history.h"
#include "daemon/record/recorder.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace incident::daemon {

// The tracepoint of a number.
using TracepointNames = std::function<std::optional<TracepointName>(std::uint32_t)>;

// One EVENT_TRIGGER: an occurrence for each condition that it names by itself (of a tracepoint), else one for all rules
// of its kind.  None: it is too short, or of rules that have since been changed or removed; but one that the kernel
// side has signalled for is told of in any case.
std::vector<Occurrence> occurrences_of(std::span<const std::uint8_t> bytes, FactsCache &facts,
                                       const RuleHistory &history, const TracepointNames &tracepoints);

} // namespace incident::daemon
