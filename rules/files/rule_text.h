// A rule as TOML with every effective value, the same for the same rule: what
// stands in a bundle, and what tells a changed rule from an unchanged one.
#pragma once

#include "rules/model/rule.h"

namespace incident::rules {

std::string rule_text(const Rule &rule);

} // namespace incident::rules
