// Finds users and groups of the system.
#pragma once

#include "capture/os/result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace incident::capture {

// getpwnam(3); nullopt: there is no such user.
std::optional<std::uint32_t> uid_of_user(const std::string &name);
// getpwuid(3): the home directory; "" if there is no such user, or none that is named.
std::string home_of_user(std::uint32_t uid);
// getgrnam(3).  Error: there is no such group (ENOENT), or it could not be looked up.
Result<std::uint32_t> gid_of_group(const std::string &name);

} // namespace incident::capture
