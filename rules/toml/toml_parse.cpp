#include "rules/toml/toml_parse.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <toml.hpp>

namespace incident::rules {
namespace {

using Value = toml::basic_value<toml::discard_comments, std::map>;

bool is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}
bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

// toml11 locates values only.  The key of `key = value` stands before the value;
// that of a [header] or of a table made by a dotted key stands within its region.
class KeyFinder {
public:
    KeyFinder(std::string_view line, Span value) : line_(line), value_(value) {}

    Span find(std::string_view key) const {
        std::size_t end = std::min<std::size_t>(static_cast<std::size_t>(value_.column) - 1, line_.size());
        while (end > 0 && is_blank(line_[end - 1]))
            --end;
        if (end > 0 && line_[end - 1] == '=')
            return before_equals(end - 1);
        return component(key);
    }

private:
    Span span(std::size_t begin, std::size_t end) const {
        return {value_.line, static_cast<int>(begin) + 1, static_cast<int>(end - begin)};
    }

    Span before_equals(std::size_t end) const {
        while (end > 0 && is_blank(line_[end - 1]))
            --end;
        std::size_t begin = end;
        if (end > 1 && (line_[end - 1] == '"' || line_[end - 1] == '\'')) {
            begin = line_.rfind(line_[end - 1], end - 2);
            return begin == std::string_view::npos ? value_ : span(begin, end);
        }
        while (begin > 0 && is_bare(line_[begin - 1]))
            --begin;
        return span(begin, end);
    }

    Span component(std::string_view key) const {
        std::size_t i = static_cast<std::size_t>(value_.column) - 1;
        while (i < line_.size() && (line_[i] == '[' || is_blank(line_[i])))
            ++i;
        while (i < line_.size()) {
            std::size_t end = i;
            std::string_view name;
            if (line_[i] == '"' || line_[i] == '\'') {
                end = line_.find(line_[i], i + 1);
                if (end == std::string_view::npos)
                    return value_;
                name = line_.substr(i + 1, end - i - 1);
                ++end;
            } else {
                while (end < line_.size() && is_bare(line_[end]))
                    ++end;
                name = line_.substr(i, end - i);
            }
            if (end == i)
                return value_;
            if (name == key)
                return span(i, end);
            for (i = end; i < line_.size() && (is_blank(line_[i]) || line_[i] == '.');)
                ++i;
        }
        return value_;
    }

    std::string_view line_;
    Span value_;
};

class Converter {
public:
    Converter(const SourceText &source, int first_line) : source_(source), line_offset_(first_line - 1) {}

    Node root(const Value &value) const {
        Node node;
        node.at = {line_offset_ + 1, 1, 0};
        add_members(value, node);
        return node;
    }

private:
    Node convert(const Value &value) const {
        Node node;
        const auto location = value.location();
        node.at = {static_cast<int>(location.line()) + line_offset_, static_cast<int>(location.column()),
                   static_cast<int>(location.region())};
        switch (value.type()) {
        case toml::value_t::table:
            add_members(value, node);
            break;
        case toml::value_t::array:
            node.kind = Node::Kind::Array;
            for (const Value &item : value.as_array(std::nothrow))
                node.items.push_back(convert(item));
            break;
        case toml::value_t::string:
            node.kind = Node::Kind::String;
            node.string = value.as_string(std::nothrow).str;
            break;
        case toml::value_t::integer:
            node.kind = Node::Kind::Integer;
            node.integer = value.as_integer(std::nothrow);
            break;
        case toml::value_t::boolean:
            node.kind = Node::Kind::Boolean;
            node.boolean = value.as_boolean(std::nothrow);
            break;
        case toml::value_t::floating:
            node.kind = Node::Kind::Float;
            break;
        default:
            node.kind = Node::Kind::Date;
            break;
        }
        return node;
    }

    void add_members(const Value &value, Node &node) const {
        node.kind = Node::Kind::Table;
        for (const auto &[name, member] : value.as_table(std::nothrow)) {
            Node child = convert(member);
            child.key = KeyFinder(source_.line(child.at.line), child.at).find(name);
            node.members.push_back({name, std::move(child)});
        }
        std::sort(node.members.begin(), node.members.end(), [](const Member &a, const Member &b) {
            const Span &x = a.node.key, &y = b.node.key;
            return std::tie(x.line, x.column, a.name) < std::tie(y.line, y.column, b.name);
        });
    }

    const SourceText &source_;
    int line_offset_;
};

// toml11's text: "[error] toml::parse_x: message", then excerpts of the form
//      |
//    3 | source line
//      | ^--- note          (or "~~~ note")
std::string headline(std::string_view what) {
    what = what.substr(0, what.find('\n'));
    if (what.starts_with("[error] "))
        what.remove_prefix(8);
    if (const std::size_t colon = what.find(": "); colon != std::string_view::npos)
        if (what.starts_with("toml::") || what.starts_with("parse_"))
            what.remove_prefix(colon + 2);
    return std::string(what);
}

std::vector<ParserError::Mark> marks(std::string_view what) {
    std::vector<ParserError::Mark> found;
    int line = 0;
    while (!what.empty()) {
        const std::size_t end = std::min(what.find('\n'), what.size());
        const std::string_view row = what.substr(0, end);
        what.remove_prefix(std::min(end + 1, what.size()));
        const std::size_t bar = row.find(" | ");
        if (bar == std::string_view::npos)
            continue;
        const std::string_view gutter = row.substr(0, bar);
        if (const std::size_t digit = gutter.find_first_of("123456789"); digit != std::string_view::npos) {
            std::from_chars(gutter.data() + digit, gutter.data() + gutter.size(), line);
        } else if (line > 0 && gutter.find_first_not_of(' ') == std::string_view::npos) {
            const std::size_t mark = row.find_first_of("^~", bar);
            if (mark != std::string_view::npos)
                found.push_back({line, static_cast<int>(mark - bar - 3) + 1});
            line = 0;
        }
    }
    return found;
}

ParserError parser_error(const std::string &what, int line_offset, int fallback_line) {
    ParserError error{.message = headline(what), .first = {fallback_line, 1}, .at = {fallback_line, 1}};
    if (const auto found = marks(what); !found.empty()) {
        error.first = {found.front().line + line_offset, found.front().column};
        error.at = {found.back().line + line_offset, found.back().column};
    }
    return error;
}

} // namespace

std::expected<Node, ParserError> parse_toml(const SourceText &source, int first_line, int last_line,
                                            const std::vector<bool> &skip) {
    std::string text;
    for (int line = first_line; line <= last_line; ++line) {
        if (!skip[static_cast<std::size_t>(line) - 1])
            text += source.line(line);
        text += '\n';
    }
    const int line_offset = first_line - 1;
    try {
        std::istringstream stream(text);
        return Converter(source, first_line).root(toml::parse<toml::discard_comments, std::map>(stream, "source"));
    } catch (const toml::exception &e) {
        return std::unexpected(
            parser_error(e.what(), line_offset, static_cast<int>(e.location().line()) + line_offset));
    } catch (const std::exception &e) { // toml11 lets e.g. std::out_of_range of a number's text through
        return std::unexpected(parser_error(e.what(), line_offset, first_line));
    }
}

} // namespace incident::rules
