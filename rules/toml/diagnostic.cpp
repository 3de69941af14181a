#include "rules/toml/diagnostic.h"

#include "rules/model/source.h"
#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

// Blanks up to the caret, with the tabs of the source line where they stand, so
// that any tab width keeps the caret under its place.
std::string padding(std::string_view source, int caret) {
    std::string pad;
    for (int column = 1; column < caret && !source.empty(); ++column) {
        const Character c = next_character(source);
        pad += c.code == '\t' ? '\t' : ' ';
        source.remove_prefix(c.bytes);
    }
    return pad;
}

} // namespace

std::string Diagnostic::text() const {
    const char *kind = severity == Severity::Error ? "error" : "warning";
    std::string out;
    if (at.line > 0) {
        out = fmt::format("{}:{}:{}: {}: {}\n", at.file, at.line, at.column, kind, message);
        out += fmt::format("{:5} | {}\n", at.line, source);
        out += fmt::format("      | {}^{}\n", padding(source, caret > 0 ? caret : at.column),
                           std::string(static_cast<std::size_t>(std::max(length, 1)) - 1, '~'));
    } else {
        out = fmt::format("{}: {}: {}\n", at.file, kind, message);
    }
    if (!hint.empty())
        out += fmt::format("      = hint: {}\n", hint);
    return out;
}

} // namespace incident::rules
