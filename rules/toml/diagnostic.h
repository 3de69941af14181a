// Everything wrong with a file, collected: file:line:column, the source line, a
// caret and a hint.  The exact text is held by tests (tests/data/rules).
#pragma once

#include "rules/model/rule.h"

#include <string>
#include <vector>

namespace incident::rules {

enum class Severity { Error, Warning };

struct Diagnostic {
    Severity severity = Severity::Error;
    Location at;
    int length = 1;      // characters the caret underlines, in `source`
    int caret = 0;       // where it stands in `source`, which differs from at.column
                         // behind escaped bytes and in a shortened line; 0: at.column
    std::string message; // "unknown key 'singals'"
    std::string source;  // the source line, terminal-safe
    std::string hint;    // "did you mean 'signals'?"; may be empty
    // `crash.toml:3:1: error: …` + source line + caret line + hint, each with its
    // newline.  Without a line (at.line == 0): the message about the file, and the hint.
    std::string text() const;
};

} // namespace incident::rules
