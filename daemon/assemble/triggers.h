// Turns the trigger events of the kernel side into occurrences, which rules and bundles understand.
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

// Finds a tracepoint by its number.
using TracepointNames = std::function<std::optional<TracepointName>(std::uint32_t)>;

// Reads one EVENT_TRIGGER.  A tracepoint's event names its conditions, and each gets an occurrence; any other event
// makes one occurrence for all rules of its kind.  The result is empty if the event is too short, or if its rules have
// been changed or removed since.  But if the kernel side has already sent a signal for it, there is always an
// occurrence, because that signal must be reported.
std::vector<Occurrence> occurrences_of(std::span<const std::uint8_t> bytes, FactsCache &facts,
                                       const RuleHistory &history, const TracepointNames &tracepoints);

} // namespace incident::daemon
