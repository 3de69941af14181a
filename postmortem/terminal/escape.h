// Text out of a bundle as a terminal may see it.  Whoever controls a process
// controls its comm, paths and arguments, so bytes that a terminal would act on
// never reach one.
#pragma once

#include <string>
#include <string_view>

namespace incident::postmortem {

// One line of harmless UTF-8: C0, DEL, C1, invalid UTF-8, line separators and the
// characters that reorder text (bidirectional controls) become \n, \t, \x1b, \u202e …
// Backslashes stay as they are: texts that were escaped before must not grow.
std::string printable(std::string_view text);

// The same of a text of several lines; all but the first are indented by so many spaces at least, so that none can pass
// for the beginning of another text.  Without a newline at its end.
std::string printable_lines(std::string_view text, std::size_t indent);

// At most width columns, counting one a code point; what is cut ends in "…".
std::string clipped(std::string_view printable_text, std::size_t width);

// Columns a printable text takes, counting one a code point.
std::size_t columns(std::string_view printable_text);

// printable text followed by as many spaces as fill width columns.
std::string padded(std::string_view printable_text, std::size_t width);

} // namespace incident::postmortem
