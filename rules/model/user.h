// Whose share something scarce is taken from.
#pragma once

#include "rules/model/rule.h"

namespace incident::rules {

// The user that shares belong to.  The ids above 65535 are handed out in ranges of 65536 (subuid(5)), each to one
// user, who may take any of them; so each range is one user.
inline std::uint32_t user_of(std::uint32_t uid) {
    constexpr std::uint32_t range = 65536;
    return uid < range ? uid : range + uid / range;
}

// The user who started the process.  The real user id is what counts: a program with the set-user-ID bit runs with the
// rights of another user, but anybody may start it, and make it crash.
inline std::uint32_t uid_of(const ProcessFacts &process) {
    return process.real_uid.value_or(process.uid);
}
inline std::uint32_t user_of(const ProcessFacts &process) {
    return user_of(uid_of(process));
}

// The system unit, container or other group that the process is in, and that its user cannot choose: the outermost one
// below the slices.  "" for everything in user.slice, where users make the groups.
std::string outer_unit(const std::string &cgroup);

} // namespace incident::rules
