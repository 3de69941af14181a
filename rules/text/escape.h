// Text of unknown origin made safe to show: nothing in it can move the cursor,
// change colours or reorder what stands beside it.
#pragma once

#include <string>
#include <string_view>

namespace incident::rules {

struct Character {
    std::size_t bytes; // of the input; at least 1
    char32_t code;     // 0xFFFFFFFF: not valid UTF-8
    std::string shown; // what to print for it
};

constexpr char32_t invalid_character = 0xFFFFFFFF;

// The first character of `text`, which must not be empty.
Character next_character(std::string_view text);

// Columns `shown` takes on a terminal, wide characters not considered.
std::size_t display_width(std::string_view shown);

// `text` with control bytes, invalid UTF-8 and invisible or direction-changing
// characters escaped ("\x1b", "\u{202e}", "\t").
std::string terminal_safe(std::string_view text);

// 'text', terminal-safe and cut when very long: a value inside a message.
std::string quote(std::string_view text);

} // namespace incident::rules
