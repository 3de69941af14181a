#include "postmortem/terminal/escape.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>

namespace incident::postmortem {

namespace {

struct Decoded {
    std::uint32_t point = 0;
    std::size_t length = 0; // 0: not UTF-8
};

// Strict: no overlong forms, no surrogates, nothing beyond U+10FFFF (Unicode 15, table 3-7).
Decoded decode(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const auto tail = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
    const std::uint8_t first = byte(0);
    if (first < 0x80)
        return {first, 1};
    if (first >= 0xc2 && first <= 0xdf && tail(1))
        return {(first & 0x1fu) << 6 | (byte(1) & 0x3fu), 2};
    if (first >= 0xe0 && first <= 0xef && tail(1) && tail(2)) {
        const std::uint32_t point = (first & 0xfu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
        if (point >= 0x800 && (point < 0xd800 || point > 0xdfff))
            return {point, 3};
    }
    if (first >= 0xf0 && first <= 0xf4 && tail(1) && tail(2) && tail(3)) {
        const std::uint32_t point =
            (first & 7u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu);
        if (point >= 0x10000 && point <= 0x10ffff)
            return {point, 4};
    }
    return {};
}

bool acts_on_terminal(std::uint32_t point) {
    constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 8> ranges{{
        {0x00, 0x1f},
        {0x7f, 0x9f},
        {0x61c, 0x61c},   // ARABIC LETTER MARK
        {0x200b, 0x200f}, // zero-width characters, direction marks
        {0x2028, 0x202e}, // separators, embeddings and overrides
        {0x2060, 0x206f}, // invisible operators, isolates
        {0xfeff, 0xfeff}, // byte order mark
        {0xe0000, 0xe007f},
    }};
    return std::ranges::any_of(ranges, [&](const auto &r) { return point >= r.first && point <= r.second; });
}

bool plain_ascii(char c) {
    return c >= 0x20 && c < 0x7f;
}

} // namespace

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const auto plain = static_cast<std::size_t>(std::ranges::find_if_not(text, plain_ascii) - text.begin());
        out.append(text.substr(0, plain));
        text.remove_prefix(plain);
        if (text.empty())
            break;
        const Decoded decoded = decode(text);
        if (decoded.length == 0)
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(text[0]));
        else if (!acts_on_terminal(decoded.point))
            out.append(text.substr(0, decoded.length));
        else if (decoded.point == '\n')
            out += "\\n";
        else if (decoded.point == '\t')
            out += "\\t";
        else if (decoded.point < 0x100)
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", decoded.point);
        else
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", decoded.point);
        text.remove_prefix(std::max<std::size_t>(decoded.length, 1));
    }
    return out;
}

std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<std::uint8_t>(c) & 0xc0) != 0x80; }));
}

std::string clipped(std::string_view text, std::size_t width) {
    if (text.size() <= width || columns(text) <= width)
        return std::string(text);
    std::size_t end = 0;
    for (std::size_t seen = 0; end < text.size(); ++end)
        if ((static_cast<std::uint8_t>(text[end]) & 0xc0) != 0x80 && ++seen == std::max<std::size_t>(width, 1))
            break;
    return std::string(text.substr(0, end)) + "…";
}

std::string padded(std::string_view text, std::size_t width) {
    const std::size_t have = columns(text);
    return std::string(text) + std::string(have < width ? width - have : 0, ' ');
}

std::string printable_lines(std::string_view text, std::size_t indent) {
    std::string out;
    while (text.ends_with('\n'))
        text.remove_suffix(1);
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        if (begin > 0) {
            const std::size_t has = std::min(line.find_first_not_of(' '), line.size());
            out += '\n' + std::string(has < indent ? indent - has : 0, ' ');
        }
        out += printable(line);
        begin = end + 1;
    }
    return out;
}

} // namespace incident::postmortem
