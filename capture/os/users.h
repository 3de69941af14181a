// Finds users of the system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace incident::capture {

// getpwnam(3); nullopt: there is no such user.
std::optional<std::uint32_t> uid_of_user(const std::string &name);

} // namespace incident::capture
