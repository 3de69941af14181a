#include "postmortem/terminal/escape.h"

#include "capture/decode/decode_text.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>

namespace incident::postmortem {

namespace {

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
        const capture::CodePoint point = capture::next_code_point(text);
        const auto value = static_cast<std::uint32_t>(point.value);
        if (!point.valid)
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(text[0]));
        else if (capture::is_printable(point.value))
            out.append(text.substr(0, point.length));
        else if (value == '\n')
            out += "\\n";
        else if (value == '\t')
            out += "\\t";
        else
            fmt::format_to(std::back_inserter(out), fmt::runtime(value < 0x100 ? "\\x{:02x}" : "\\u{:04x}"), value);
        text.remove_prefix(point.length);
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
