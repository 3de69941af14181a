// Reads JSON documents in which anything may be missing.  Internal to capture/.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace incident::capture {

// The member with this key; null if object is no object or has no such key.
const nlohmann::ordered_json &member(const nlohmann::ordered_json &object, const char *key);

// The text; null for "", so that a reader need not distinguish "unknown" from empty.  Bytes that are not UTF-8 become
// U+FFFD.
nlohmann::ordered_json text_or_null(std::string_view text);

} // namespace incident::capture
