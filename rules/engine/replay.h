// Replays recorded firings against edited rules: which rules would have fired, and why the others would not. Pure: the
// caller reads the bundles.
#pragma once

#include "rules/engine/engine.h"

namespace incident::rules {

// One firing as an incident bundle has it.
struct Recorded {
    std::string rule;              // the name of the rule that fired
    std::optional<Rule> rule_then; // parsed from its text in the bundle; not set if that failed
    std::size_t condition = 0;     // index of that rule's condition which `event` matched
    Event event;                   // the trigger
    std::vector<Matched> matches;  // Decision::matches of that time, with the trigger's; may be empty
    std::uint64_t matches_total = 0, value_total = 0; // of that time; may be more than `matches` holds
};

// What one rule decides about one recorded firing.
struct Replayed {
    std::string rule;
    Outcome outcome = Outcome::NoMatch;
    std::string why;        // like Decision::why, or "enabled: …", "on: …", "probe: …"
    std::uint64_t t_ns = 0; // when it fired or was suppressed
};

// Returns, for each recorded firing (oldest first), one answer from each rule, in the rules' order.
// A bundle holds only the time and the value of each match. So an earlier match is offered to the rules as a copy of
// the trigger with that time and value. A match of another condition of an `all` rule is offered as the smallest event
// that this condition asked for at that time. All of them are offered as events of the trigger's process. Limits and
// tallies continue from one recorded firing to the next. Matches of rules that did not fire are in no bundle. So a rule
// that was made more sensitive may have fired more often than this result says.
std::vector<std::vector<Replayed>> replay(std::vector<Rule> rules, const std::vector<Recorded> &recorded);

} // namespace incident::rules
