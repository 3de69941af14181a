// Whether a signal event is what a rule with on = "signal" waits for.
#pragma once

#include "rules/engine/engine.h"

namespace incident::rules {

// "" if it is, else the first condition that fails; `pid`: who gets the signal.
// "signals: SIGUSR1 is none of [SIGBUS, SIGSEGV]".
std::string mismatch(const SignalCondition &condition, const SignalEvent &event, std::uint32_t pid);

} // namespace incident::rules
