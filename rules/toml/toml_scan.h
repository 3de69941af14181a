// Scans TOML text line by line and finds where multi-line values begin and end and where tables start. It also works on
// broken files, so that the parser can skip one syntax error and still check the rest of the file.
#pragma once

#include "rules/toml/report.h"

#include <optional>

namespace incident::rules {

struct LineShape {
    bool top_header = false;  // "[name]" or "[[name]]", not "[name.other]"
    bool header = false;      // any "[…" that starts a table
    bool continues = false;   // the line begins inside a value of an earlier line
    bool open_at_end = false; // the line's value continues in the next line
};

// One entry for each line; [0] is for line 1.
std::vector<LineShape> line_shapes(const SourceText &source);

// Finds bytes that TOML forbids, and nesting that is too deep for a parser's stack (toml11 recurses for each level).
// Returns the position in these lines and the message.
struct Unparsable {
    Span at;
    std::string message, hint;
};
std::optional<Unparsable> unparsable(const SourceText &source, int first_line, int last_line);

} // namespace incident::rules
