// The only user of toml11: it takes text and returns values with positions, or one syntax error.
#pragma once

#include "rules/toml/toml_document.h"

#include <expected>

namespace incident::rules {

// A syntax error as toml11 reported it. toml11's own location can be wrong (FACTS.md §6: `a = 1__2` is
// reported at 1:1), so place and note are taken from the excerpt it prints.
struct ParserError {
    struct Mark {
        int line = 0;
        int column = 0; // bytes, from 1
    };
    std::string message; // "missing array separator `,` after a value"
    Mark first;          // the beginning of the array, or the first definition; may equal `at`
    Mark at;
};

// Parses source lines first..last. Positions in the result count from the file's first line. Lines whose `skip` entry
// is set are left out; skip[0] is for line 1.
std::expected<Node, ParserError> parse_toml(const SourceText &source, int first_line, int last_line,
                                            const std::vector<bool> &skip);

// Rewrites toml11's syntax errors so that they help the author of the file.
struct SyntaxError {
    Span at;
    std::string message, hint;
};

SyntaxError explain(const ParserError &error, const Report &report);

} // namespace incident::rules
