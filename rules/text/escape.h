// Makes text of unknown origin safe to show: nothing in it can move the cursor, change colours or reorder the text
// beside it.
#pragma once

#include <string>
#include <string_view>

namespace incident::rules {

struct Character {
    std::size_t bytes; // length in the input; at least 1
    char32_t code;     // 0xFFFFFFFF if it is not valid UTF-8
    std::string shown; // the text to print for it
};

constexpr char32_t invalid_character = 0xFFFFFFFF;

// The first character of `text`, which must not be empty.
Character next_character(std::string_view text);

// The number of columns that `shown` takes on a terminal; wide characters count as one.
std::size_t display_width(std::string_view shown);

// Escapes control bytes, invalid UTF-8 and invisible or direction-changing characters ("\x1b", "\u{202e}", "\t").
std::string terminal_safe(std::string_view text);

// A value inside a message: 'text' in quotes, terminal-safe, shortened if it is very long.
std::string quote(std::string_view text);

} // namespace incident::rules
