#include "rules/toml/toml_scan.h"

#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

constexpr int deepest_brackets = 32; // rules need 3
constexpr int longest_dotted_key = 32;

bool begins_bare_key(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Walks lines, knowing strings, comments and brackets.
class Scanner {
public:
    void line(std::string_view text) {
        dots_ = 0;
        deepest_column_ = 0;
        const bool header = multi_line_quote_ == 0 && is_header(text);
        if (header)
            depth_ = 0; // a header cannot stand inside a value: what was open was never closed
        for (std::size_t i = 0; i < text.size();)
            i = step(text, i);
        if (header) {
            depth_ = 0;
            multi_line_quote_ = 0;
        }
    }

    // An array element cannot begin with a bare key, so "[name" starts a table.
    static bool is_header(std::string_view text) {
        const std::size_t bracket = text.find_first_not_of(" \t");
        if (bracket == std::string_view::npos || text[bracket] != '[')
            return false;
        const std::size_t name = text.find_first_not_of("[ \t", bracket);
        return name != std::string_view::npos && begins_bare_key(text[name]) && !is_value(text.substr(name)) &&
               std::count(text.begin() + static_cast<std::ptrdiff_t>(bracket),
                          text.begin() + static_cast<std::ptrdiff_t>(name), '[') <= 2;
    }

    bool open() const { return depth_ > 0 || multi_line_quote_ != 0; }
    bool in_string() const { return multi_line_quote_ != 0; }
    int dots() const { return dots_; }
    std::size_t deepest_column() const { return deepest_column_; } // from 1, once too deep

private:
    static bool is_value(std::string_view text) {
        for (std::string_view word : {"true", "false", "inf", "nan"})
            if (text.starts_with(word) && (text.size() == word.size() || !begins_bare_key(text[word.size()])))
                return true;
        return false;
    }

    std::size_t step(std::string_view text, std::size_t i) {
        if (multi_line_quote_ != 0)
            return inside_multi_line(text, i);
        switch (text[i]) {
        case '#':
            return text.size();
        case '"':
        case '\'':
            return string(text, i);
        case '[':
        case '{':
            if (++depth_ > deepest_brackets && deepest_column_ == 0)
                deepest_column_ = i + 1;
            break;
        case ']':
        case '}':
            depth_ = std::max(0, depth_ - 1);
            break;
        case '.':
            ++dots_;
            break;
        default:
            break;
        }
        return i + 1;
    }

    std::size_t string(std::string_view text, std::size_t i) {
        const char quote = text[i];
        if (text.substr(i).starts_with(std::string(3, quote))) {
            multi_line_quote_ = quote;
            return i + 3;
        }
        for (++i; i < text.size() && text[i] != quote; ++i)
            i += quote == '"' && text[i] == '\\';
        return std::min(i + 1, text.size());
    }

    std::size_t inside_multi_line(std::string_view text, std::size_t i) {
        if (text[i] == '\\' && multi_line_quote_ == '"')
            return std::min(i + 2, text.size());
        if (!text.substr(i).starts_with(std::string(3, multi_line_quote_)))
            return i + 1;
        for (i += 3; i < text.size() && text[i] == multi_line_quote_;) // """" and """"" end it too
            ++i;
        multi_line_quote_ = 0;
        return i;
    }

    int depth_ = 0;
    int dots_ = 0; // outside strings, of this line; numbers and dates have at most one per value
    std::size_t deepest_column_ = 0;
    char multi_line_quote_ = 0;
};

bool is_top_header(std::string_view text) {
    const std::size_t name = text.find_first_not_of("[ \t");
    std::size_t end = name;
    while (end < text.size() &&
           (begins_bare_key(text[end]) || text[end] == '-' || (text[end] >= '0' && text[end] <= '9')))
        ++end;
    end = std::min(text.find_first_not_of(" \t", end), text.size());
    return end == text.size() || text[end] != '.';
}

std::optional<Unparsable> bad_byte(std::string_view text, int line) {
    for (std::size_t i = 0; i < text.size();) {
        const Character c = next_character(text.substr(i));
        const Span at{line, static_cast<int>(i) + 1, static_cast<int>(c.bytes)};
        if (c.code == invalid_character)
            return Unparsable{at, fmt::format("byte {} is not valid UTF-8", c.shown), "save the file as UTF-8"};
        if ((c.code < 0x20 && c.code != '\t') || c.code == 0x7F)
            return Unparsable{at, fmt::format("control character {} is not allowed", c.shown),
                              "in a \"string\" write it as \\u and four hexadecimal digits"};
        i += c.bytes;
    }
    return std::nullopt;
}

} // namespace

std::vector<LineShape> line_shapes(const SourceText &source) {
    std::vector<LineShape> shapes;
    Scanner scanner;
    for (int number = 1; number <= source.line_count(); ++number) {
        const std::string_view text = source.line(number);
        LineShape shape;
        shape.header = !scanner.in_string() && Scanner::is_header(text);
        shape.top_header = shape.header && is_top_header(text);
        shape.continues = scanner.open() && !shape.header;
        scanner.line(text);
        shape.open_at_end = scanner.open();
        shapes.push_back(shape);
    }
    return shapes;
}

std::optional<Unparsable> unparsable(const SourceText &source, int first_line, int last_line) {
    Scanner scanner;
    for (int number = first_line; number <= last_line; ++number) {
        const std::string_view text = source.line(number);
        if (auto bad = bad_byte(text, number))
            return bad;
        scanner.line(text);
        if (scanner.deepest_column() > 0)
            return Unparsable{{number, static_cast<int>(scanner.deepest_column()), 1},
                              fmt::format("values are nested more than {} deep", deepest_brackets),
                              ""};
        if (scanner.dots() > longest_dotted_key)
            return Unparsable{{number, 1, static_cast<int>(text.size())},
                              fmt::format("a key of more than {} parts", longest_dotted_key),
                              ""};
    }
    return std::nullopt;
}

} // namespace incident::rules
