#include "capture/decode/decode_text.h"

namespace incident::capture {

CodePoint next_code_point(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80)
        return {first, 1, true};
    unsigned length;
    char32_t value, least;
    if (first >= 0xc2 && first <= 0xdf)
        length = 2, value = first & 0x1f, least = 0x80;
    else if (first >= 0xe0 && first <= 0xef)
        length = 3, value = first & 0x0f, least = 0x800;
    else if (first >= 0xf0 && first <= 0xf4)
        length = 4, value = first & 0x07, least = 0x10000;
    else
        return {};
    if (text.size() < length)
        return {};
    for (unsigned i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80)
            return {};
        value = value << 6 | (byte(i) & 0x3f);
    }
    if (value < least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return {};
    return {value, length, true};
}

bool is_printable(char32_t value) {
    return !(value < 0x20 || (value >= 0x7f && value < 0xa0) || // C0, DEL, C1
             (value >= 0x200b && value <= 0x200f) ||            // zero width, direction marks
             (value >= 0x2028 && value <= 0x202e) ||            // separators, embeddings, overrides
             (value >= 0x2060 && value <= 0x206f) ||            // invisible operators, isolates
             value == 0x61c || value == 0xfeff || value == 0xfff9 || value == 0xfffa || value == 0xfffb ||
             (value >= 0xe0000 && value <= 0xe007f)); // tags
}

namespace {

bool is_octal_digit(char c) {
    return c >= '0' && c <= '7';
}

// strace's escapes: the shortest octal form that the next character cannot extend.
void append_escape(std::string &out, unsigned char byte, std::string_view rest) {
    switch (byte) {
    case '\n':
        out += "\\n";
        return;
    case '\t':
        out += "\\t";
        return;
    case '\r':
        out += "\\r";
        return;
    case '\v':
        out += "\\v";
        return;
    case '\f':
        out += "\\f";
        return;
    default:
        break;
    }
    out += '\\';
    const bool full = !rest.empty() && is_octal_digit(rest.front());
    if (full || byte >= 0100)
        out += static_cast<char>('0' + (byte >> 6));
    if (full || byte >= 010)
        out += static_cast<char>('0' + (byte >> 3 & 7));
    out += static_cast<char>('0' + (byte & 7));
}

// Appends the first code point or byte of text; returns its length.
std::size_t append_safe(std::string &out, std::string_view text) {
    const CodePoint point = next_code_point(text);
    if (point.valid && is_printable(point.value)) {
        out.append(text.substr(0, point.length));
        return point.length;
    }
    for (unsigned i = 0; i < point.length; ++i)
        append_escape(out, static_cast<unsigned char>(text[i]), text.substr(i + 1));
    return point.length;
}

} // namespace

void append_quoted(std::string &out, std::string_view text) {
    append_in_quotes(out, text, [&](std::string_view rest) {
        if (rest.front() != '"' && rest.front() != '\\')
            return append_safe(out, rest);
        out += '\\';
        out += rest.front();
        return std::size_t{1};
    });
}

std::string quoted(std::string_view text) {
    std::string out;
    append_quoted(out, text);
    return out;
}

std::string terminal_text(std::string_view text, std::size_t max) {
    std::string out;
    std::size_t columns = 0, before_last = 0; // where the last column that fits begins
    while (!text.empty()) {
        const std::size_t at = out.size();
        text.remove_prefix(append_safe(out, text));
        const bool escape = out[at] == '\\' && out.size() > at + 1;
        columns += escape ? out.size() - at : 1;
        if (columns < max)
            before_last = out.size();
        if (columns > max) {
            out.resize(before_last);
            return out + "…";
        }
    }
    return out;
}

std::string valid_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const CodePoint point = next_code_point(text);
        out += point.valid ? text.substr(0, point.length) : "\xef\xbf\xbd";
        text.remove_prefix(point.length);
    }
    return out;
}

void append_hex(std::string &out, std::uint64_t value) {
    char digits[18] = {'0', 'x'};
    out.append(digits, std::to_chars(digits + 2, digits + sizeof digits, value, 16).ptr);
}

std::string hex_text(std::uint64_t value) {
    std::string out;
    append_hex(out, value);
    return out;
}

} // namespace incident::capture
