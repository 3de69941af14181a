// The one door to toml11: text in, located values or one syntax error out.
#pragma once

#include "rules/toml/toml_document.h"

#include <expected>

namespace incident::rules {

// What toml11 said.  Its own location can be wrong (FACTS.md §6: `a = 1__2` is
// reported at 1:1), so place and note are taken from the excerpt it prints.
struct ParserError {
    struct Mark {
        int line = 0;
        int column = 0; // bytes, from 1
    };
    std::string message; // "missing array separator `,` after a value"
    Mark first;          // where it begins: an array, a first definition; may equal `at`
    Mark at;
};

// Parses source lines first..last; places in the result count from the file's
// first line.  Lines whose `skip` entry ([0] for line 1) is set are left out.
std::expected<Node, ParserError> parse_toml(const SourceText &source, int first_line, int last_line,
                                            const std::vector<bool> &skip);

} // namespace incident::rules
