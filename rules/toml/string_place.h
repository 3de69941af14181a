// A place inside a string value, for a caret within it.
#pragma once

#include "rules/toml/toml_document.h"

namespace incident::rules {

// Where byte `at` of the string's value stands in its line: escapes are counted as they
// are written.  A string of several lines: the whole of it.
Span place_in_string(const SourceText &source, const Node &node, std::size_t at, std::size_t length);

} // namespace incident::rules
