// A condition as TOML keys with every effective value.
#pragma once

#include "rules/model/rule.h"
#include "rules/toml/toml_text.h"

namespace incident::rules {

TomlKeys condition_keys(const Condition &condition);

} // namespace incident::rules
