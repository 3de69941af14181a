// A line-by-line look at TOML text that works on broken files too: where
// multi-line values begin and end and where tables start.  It lets one syntax
// error be stepped over so that the rest of the file is still checked.
#pragma once

#include "rules/toml/report.h"

#include <optional>

namespace incident::rules {

struct LineShape {
    bool top_header = false;  // "[name]" or "[[name]]", not "[name.other]"
    bool header = false;      // any "[…" that starts a table
    bool continues = false;   // begins inside a value of an earlier line
    bool open_at_end = false; // its value goes on in the next line
};

// One entry per line, [0] for line 1.
std::vector<LineShape> line_shapes(const SourceText &source);

// Bytes TOML forbids, and nesting deeper than a parser's stack can bear (toml11
// recurses per level).  Where in these lines, and what to say about it.
struct Unparsable {
    Span at;
    std::string message, hint;
};
std::optional<Unparsable> unparsable(const SourceText &source, int first_line, int last_line);

} // namespace incident::rules
