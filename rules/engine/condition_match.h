// Decides whether one event matches one condition. Counting matches is the tally's work (tally_memory.h).
#pragma once

#include "rules/engine/engine.h"

namespace incident::rules {

// Returns nullopt if the event matches, otherwise the reason: "slower_than: took 12ms, less than 1s". Without `explain`
// the text is empty, because events may come often. An event of another kind, or of another rule's probe, gives "on:
// …". RSS samples always match here: whether they count depends on earlier samples (memory_samples.h).
std::optional<std::string> mismatch(const Rule &rule, std::size_t condition, const Event &event, bool explain);

// The time that `stalled` adds up, or the bytes of a sample; 0 for kinds that have neither.
std::uint64_t value_of(const EventKind &what);

// Returns "" if it matches, otherwise the first key that does not hold: "signals: SIGUSR1 is none of [SIGBUS,
// SIGSEGV]". `pid` is the process that gets the signal.
std::string mismatch(const SignalCondition &condition, const SignalEvent &event, std::uint32_t pid);

} // namespace incident::rules
