// The patterns of match, sender and [safety] never: fnmatch(3) without
// FNM_PATHNAME, so '*' also matches '/'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace incident::rules {

bool glob_matches(const std::string &pattern, const std::string &text);
bool any_glob_matches(const std::vector<std::string> &patterns, const std::string &text);

// The part of a pattern before its first wildcard; the whole pattern if it has none.
std::string_view literal_prefix(std::string_view pattern);
inline bool has_wildcard(std::string_view pattern) {
    return literal_prefix(pattern).size() != pattern.size();
}

} // namespace incident::rules
