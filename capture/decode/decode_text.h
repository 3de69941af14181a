// Makes text from hostile bytes: reads UTF-8, quotes as strace does, and makes text that is safe for a terminal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace incident::capture {

struct CodePoint {
    char32_t value = 0;  // meaningless where !valid
    unsigned length = 1; // bytes taken; 1 for a byte that is no UTF-8
    bool valid = false;
};
// The code point that text begins with.  text must not be empty.  Overlong forms,
// surrogates and what lies beyond U+10FFFF are not valid (RFC 3629).
CodePoint next_code_point(std::string_view text);

// Whether a terminal shows the character and is not controlled by it: no C0 or C1 control, no bidirectional override or
// isolate, no line or paragraph separator.
bool is_printable(char32_t value);

// The name in a fixed array as the kernel copies it: up to the first NUL.
template <std::size_t N> std::string_view fixed_text(const char (&bytes)[N]) {
    std::string_view text(bytes, N);
    return text.substr(0, text.find('\0'));
}

// Appends the text in double quotes with strace's escapes: \", \\, \n, \t, \33, … ;
// valid printable UTF-8 stays.
void append_quoted(std::string &out, std::string_view text);
std::string quoted(std::string_view text);

// Appends the text in double quotes.  escape() is given the rest of the text, which begins with a quote, a backslash or
// something beyond printable ASCII; it appends what stands for it, and returns how many bytes of the text that was.
template <typename Escape> void append_in_quotes(std::string &out, std::string_view text, const Escape &escape) {
    constexpr auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
    out += '"';
    while (!text.empty()) {
        // Most text is plain: it is appended at once.
        const auto run = static_cast<std::size_t>(std::ranges::find_if_not(text, plain) - text.begin());
        out.append(text.substr(0, run));
        text.remove_prefix(run);
        if (!text.empty())
            text.remove_prefix(escape(text));
    }
    out += '"';
}

// One line for a terminal or summary.txt: as append_quoted escapes, without the quotes and with
// quotes and backslashes left alone; at most max columns (code points), then "…".
std::string terminal_text(std::string_view text, std::size_t max = std::string::npos);

// The text as valid UTF-8: invalid bytes become U+FFFD.
std::string valid_utf8(std::string_view text);

// "0x7f…"
std::string hex_text(std::uint64_t value);
void append_hex(std::string &out, std::uint64_t value);
template <typename Integer> void append_number(std::string &out, Integer value);

} // namespace incident::capture

#include <charconv>

template <typename Integer> void incident::capture::append_number(std::string &out, Integer value) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}
