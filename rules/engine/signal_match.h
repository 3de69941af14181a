// Decides whether a signal event matches a condition with on = "signal".
#pragma once

#include "rules/engine/engine.h"

namespace incident::rules {

// Returns "" if it matches, otherwise the first key that does not hold: "signals: SIGUSR1 is none of [SIGBUS,
// SIGSEGV]". `pid` is the process that gets the signal.
std::string mismatch(const SignalCondition &condition, const SignalEvent &event, std::uint32_t pid);

} // namespace incident::rules
