// How copies of modules are named in the directory that keeps them: by what they contain, so that a name means the same
// as long as it is there, and nobody's file takes the place of another's.
#pragma once

#include <string>
#include <string_view>

namespace incident::capture {

inline constexpr const char *kept_modules_dir = "modules"; // below the daemon's state

// "BUILD-ID.HASH", "none.HASH": hash is the SHA-256 of what is kept, in hex.
std::string kept_name(std::string_view build_id, std::string_view sha256);
// Whether a text may be such a name.  One that comes from a bundle may be anything.
bool is_kept_name(std::string_view name);
// The build-id in it; "" none.
std::string_view build_id_in(std::string_view kept_name);

} // namespace incident::capture
