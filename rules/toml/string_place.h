// Finds a position inside a string value, for a caret within it.
#pragma once

#include "rules/toml/toml_document.h"

namespace incident::rules {

// The position in the source line of byte `at` of the string's value; escapes count as they are written. For a string
// of several lines it is the whole string.
Span place_in_string(const SourceText &source, const Node &node, std::size_t at, std::size_t length);

} // namespace incident::rules
