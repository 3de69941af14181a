// Makes text from a bundle safe for a terminal. Whoever controls a process controls its comm, paths and arguments, so
// bytes that a terminal would act on must not reach it.
#pragma once

#include <string>
#include <string_view>

namespace incident::postmortem {

// One line of harmless UTF-8: C0, DEL, C1, invalid UTF-8, line separators and the
// characters that reorder text (bidirectional controls) become \n, \t, \x1b, \u202e …
// Backslashes stay as they are: texts that were escaped before must not grow.
std::string printable(std::string_view text);

// The same for a text of several lines. All lines except the first are indented by at least this many spaces, so that
// none looks like the beginning of another text. The result has no newline at its end.
std::string printable_lines(std::string_view text, std::size_t indent);

// Cuts a text to at most `width` columns; a cut text ends in "…". Each code point counts as one column.
std::string clipped(std::string_view printable_text, std::size_t width);

// The columns that a printable text takes. Each code point counts as one.
std::size_t columns(std::string_view printable_text);

// A printable text, filled with spaces to `width` columns.
std::string padded(std::string_view printable_text, std::size_t width);

} // namespace incident::postmortem
