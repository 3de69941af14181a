// A rule as TOML with every effective value. The same rule always gives the same text. Bundles contain this text, and a
// reload compares it to see whether a rule has changed.
#pragma once

#include "rules/model/rule.h"

namespace incident::rules {

std::string rule_text(const Rule &rule);

} // namespace incident::rules
