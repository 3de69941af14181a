// The problems of a file, collected. Each has file:line:column, the source line, a caret and a hint. Tests check the
// exact text (tests/data/rules).
#pragma once

#include "rules/model/rule.h"

#include <string>

namespace incident::rules {

enum class Severity { Error, Warning };

struct Diagnostic {
    Severity severity = Severity::Error;
    Location at;
    int length = 1;      // characters the caret underlines, in `source`
    int caret = 0;       // its column in `source`; differs from at.column after escaped bytes and in
                         // a shortened line; 0: the same as at.column
    std::string message; // "unknown key 'singals'"
    std::string source;  // the source line, terminal-safe
    std::string hint;    // "did you mean 'signals'?"; may be empty
    // `crash.toml:3:1: error: …`, the source line, the caret line and the hint, each with its newline. Without a
    // position (at.line == 0) only the message about the file and the hint.
    std::string text() const;
};

} // namespace incident::rules
