// What a rule waits for: `on` and its condition, or its conditions.
#pragma once

#include "rules/conditions/rule_tables.h"

namespace incident::rules {

// Fills in kind, combine, within and conditions.  False: the kind is not known, so
// neither are the keys it would have.
bool read_conditions(TableReader &rule, const std::string &where, const Lookups &lookups, Rule &out);

// What only the whole rule shows: a `dump` or a `match` its conditions cannot have.  Only
// for rules without errors so far.  Sets the defaults that depend on the conditions.
void check_together(TableReader &table, Rule &rule);

} // namespace incident::rules
