#include "rules/toml/toml_document.h"

#include <algorithm>

namespace incident::rules {
namespace {

struct Written {
    std::size_t source, value; // bytes
};

// "\u00e9" is six bytes in the file and two of the value.
Written escape(std::string_view rest) {
    const char kind = rest.size() > 1 ? rest[1] : '\\';
    if (kind != 'u' && kind != 'U')
        return {2, 1};
    const std::size_t digits = kind == 'u' ? 4 : 8;
    unsigned code = 0;
    for (const char c : rest.substr(2, digits))
        code = code * 16 + static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    return {2 + digits, code < 0x80 ? 1u : code < 0x800 ? 2u : code < 0x10000 ? 3u : 4u};
}

} // namespace

Span place_in_string(const SourceText &source, const Node &node, std::size_t at, std::size_t length) {
    const std::string_view line = source.line(node.at.line);
    const std::size_t open = static_cast<std::size_t>(std::max(node.at.column, 1)) - 1;
    if (open >= line.size() || (line[open] != '"' && line[open] != '\''))
        return node.at;
    if (line.substr(open, 3) == std::string(3, line[open]))
        return node.at;
    std::size_t begin = 0, end = 0;
    std::size_t i = open + 1;
    for (std::size_t value = 0;;) {
        if (value <= at)
            begin = i;
        if (value <= at + length)
            end = i;
        if (value >= at + length || i >= line.size() || line[i] == line[open])
            break;
        const Written step = line[open] == '"' && line[i] == '\\' ? escape(line.substr(i)) : Written{1, 1};
        i += step.source;
        value += step.value;
    }
    return {node.at.line, static_cast<int>(begin) + 1, static_cast<int>(std::max(end, begin + 1) - begin)};
}

} // namespace incident::rules
