// The kinds of conditions there are, by the name `on` takes.
#pragma once

#include "rules/model/rule.h"

namespace incident::rules {

// All kinds, in the order of ConditionKind's alternatives.
const std::vector<std::string> &condition_kinds();

// A condition of this kind with its defaults; nullopt if there is no such kind.
std::optional<ConditionKind> condition_of_kind(std::string_view name);

// The keys that only conditions of some kinds have, for hints: "'pool' is a key of on = "txg_sync"".
struct KindKey {
    std::string key, hint;
};
const std::vector<KindKey> &kind_keys();

// True if matches of this kind have a duration, so that `stalled` can add them up.
bool takes_time(const ConditionKind &what);

// True if a firing of this kind is about the host and not about one process.
bool of_host(const Condition &condition);

} // namespace incident::rules
