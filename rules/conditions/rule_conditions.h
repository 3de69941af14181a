// What a rule waits for: `on` and its condition, or its conditions.
#pragma once

#include "rules/conditions/rule_tables.h"

namespace incident::rules {

// Fills in kind, combine, within and conditions. Returns false if the kind is unknown: then the keys that belong to it
// are unknown too.
bool read_conditions(TableReader &rule, const std::string &where, const Lookups &lookups, Rule &out);

// Finds errors that only the whole rule shows: a `dump` or a `match` that its conditions cannot have. Only for rules
// without errors so far. Also sets the defaults that depend on the conditions.
void check_together(TableReader &table, Rule &rule);

} // namespace incident::rules
