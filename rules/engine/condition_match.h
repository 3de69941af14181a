// Whether one event is what one condition waits for, but for its tally.
#pragma once

#include "rules/engine/engine.h"

namespace incident::rules {

// nullopt if it is; else why not: "slower_than: took 12ms, less than 1s".  Without
// `explain` the text is empty: events may come often.  An event of another kind, or of
// another rule's probe, is "on: …".  RSS samples pass: they depend on those before.
std::optional<std::string> mismatch(const Rule &rule, std::size_t condition, const Event &event, bool explain);

// What adds up to `stalled`, or the bytes of a sample; 0 for kinds without.
std::uint64_t value_of(const EventKind &what);

} // namespace incident::rules
