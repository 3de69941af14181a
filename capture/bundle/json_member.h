// Reading a JSON document that may lack anything.  Internal to capture/.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace incident::capture {

// null where object is none or has no such key.
const nlohmann::ordered_json &member(const nlohmann::ordered_json &object, const char *key);

// null for "", so that a reader need not tell "unknown" from empty; what is not UTF-8 becomes U+FFFD.
nlohmann::ordered_json text_or_null(std::string_view text);

} // namespace incident::capture
