// [privacy] redact: regular expressions that must compile and mean something.
#pragma once

#include <optional>
#include <string>

namespace incident::rules {

struct RedactionError {
    std::string message, hint;
};

// nullopt: `pattern` is a usable regular expression of RE2.
std::optional<RedactionError> redaction_error(const std::string &pattern);

} // namespace incident::rules
