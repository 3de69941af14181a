// Rewrites toml11's syntax errors so that they help the author of the file.
#pragma once

#include "rules/toml/toml_parse.h"

namespace incident::rules {

struct SyntaxError {
    Span at;
    std::string message, hint;
};

SyntaxError explain(const ParserError &error, const Report &report);

} // namespace incident::rules
