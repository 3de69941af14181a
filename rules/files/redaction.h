// [privacy] redact: regular expressions that must compile and mean something.
#pragma once

#include <optional>
#include <string>

namespace incident::rules {

struct RedactionError {
    std::string message, hint;
};

// Returns what is wrong with `pattern`; nullopt if RE2 can use it.
std::optional<RedactionError> redaction_error(const std::string &pattern);

} // namespace incident::rules
