#include "rules/text/escape.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

constexpr std::size_t longest_quote = 160; // bytes shown of one value

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Format characters a terminal does not show but obeys: zero-width, bidirectional
// overrides ("Trojan Source", CVE-2021-42574), byte-order mark, line separators.
bool is_invisible(char32_t code) {
    return code == 0xAD || code == 0x61C || (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
           (code >= 0xE0000 && code <= 0xE0FFF);
}

// Decodes strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
Character decode(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80)
        return {1, lead, {}};
    const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes)
        return {1, invalid_character, {}};
    char32_t code = lead & (0xFF >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; ++i) {
        if (!continues(text[i]))
            return {1, invalid_character, {}};
        code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    }
    constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < smallest[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return {1, invalid_character, {}};
    return {bytes, code, {}};
}

} // namespace

Character next_character(std::string_view text) {
    Character c = decode(text);
    if (c.code == invalid_character)
        c.shown = fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (c.code == '\t')
        c.shown = "\\t";
    else if (c.code == '\n')
        c.shown = "\\n";
    else if (c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0))
        c.shown = fmt::format("\\x{:02x}", static_cast<unsigned>(c.code));
    else if (is_invisible(c.code))
        c.shown = fmt::format("\\u{{{:x}}}", static_cast<unsigned>(c.code));
    else
        c.shown = text.substr(0, c.bytes);
    return c;
}

std::size_t display_width(std::string_view shown) {
    std::size_t width = 0;
    for (char byte : shown)
        width += !continues(byte);
    return width;
}

std::string terminal_safe(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Character c = next_character(text);
        out += c.shown;
        text.remove_prefix(c.bytes);
    }
    return out;
}

std::string quote(std::string_view text) {
    if (text.size() <= longest_quote)
        return "'" + terminal_safe(text) + "'";
    std::size_t end = longest_quote;
    while (end > 0 && continues(text[end]))
        --end;
    return "'" + terminal_safe(text.substr(0, end)) + "...'";
}

} // namespace incident::rules
