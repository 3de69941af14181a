// Recorded firings against edited rules: which would have fired, and why not.  Pure; reading
// the bundles is the caller's.
#pragma once

#include "rules/engine/engine.h"

namespace incident::rules {

// One firing as an incident bundle has it.
struct Recorded {
    std::string rule;              // the name of the rule that fired
    std::optional<Rule> rule_then; // parsed from its text in the bundle, if that could be
    std::size_t condition = 0;     // of that rule: the one `event` was matched by
    Event event;                   // the trigger
    std::vector<Matched> matches;  // Decision::matches of then, the trigger's among them; may be empty
    std::uint64_t matches_total = 0, value_total = 0; // of then, where there were more than `matches` holds
};

// What one rule makes of one recorded firing.
struct Replayed {
    std::string rule;
    Verdict verdict = Verdict::NoMatch;
    std::string why;        // as Decision::why; also: "enabled: …", "on: …", "probe: …"
    std::uint64_t t_ns = 0; // Fire, Suppressed: when
};

// For each recorded firing (oldest first) an answer of each rule, in their order.
//
// What was recorded of a match is its time and its value.  So the matches before the trigger
// are given to the rules as copies of the trigger with these, and those of other conditions of
// an `all` rule as the least event their condition then asked for; all of them as the trigger's
// process's.  Limits and tallies go on from one recorded firing to the next.  Matches that no
// bundle holds (of rules that did not fire) are not known: a rule made more sensitive may have
// fired more often than is said here.
std::vector<std::vector<Replayed>> replay(std::vector<Rule> rules, const std::vector<Recorded> &recorded);

} // namespace incident::rules
