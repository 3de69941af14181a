// The JSON documents of a bundle, in which anything may be missing.  Internal to capture/.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace incident::capture {

using Json = nlohmann::ordered_json;

// The member with this key; null if object is no object or has no such key.
const Json &member(const Json &object, const char *key);

// The text; null for "", so that a reader need not distinguish "unknown" from empty.  Bytes that are not UTF-8 become
// U+FFFD.
Json text_or_null(std::string_view text);

} // namespace incident::capture
