#include "rules/toml/toml_parse.h"

#include <algorithm>
#include <map>
#include <re2/re2.h>
#include <sstream>
#include <stdexcept>
#include <toml.hpp>
#include <vector>

namespace incident::rules {
namespace {

// toml11 (3.7) puts `a.b = 1` behind `a = []` into the last element of the array, of which there is none.
template <typename T> class Array : public std::vector<T> {
public:
    using std::vector<T>::vector;
    T &back() {
        if (this->empty())
            throw std::out_of_range("a key with a dot names an empty array");
        return std::vector<T>::back();
    }
    const T &back() const { return const_cast<Array *>(this)->back(); }
};

using Value = toml::basic_value<toml::discard_comments, std::map, Array>;

// toml11 locates values only.  The key of `key = value` stands before the value;
// that of a [header] or of a table made by a dotted key stands within its region.
Span place_of_key(std::string_view line, Span value, std::string_view key) {
#define BARE_OR_QUOTED R"re(([A-Za-z0-9_-]+|"[^"]*"|'[^']*'))re"
    static const RE2 assigned(BARE_OR_QUOTED R"([ \t]*=[ \t]*$)", RE2::Latin1);
    static const RE2 part(BARE_OR_QUOTED R"([ \t.]*)", RE2::Latin1);
#undef BARE_OR_QUOTED
    static const RE2 brackets(R"([\[ \t]*)", RE2::Latin1);
    const auto begin = std::min<std::size_t>(static_cast<std::size_t>(value.column) - 1, line.size());
    const auto span = [&](re2::StringPiece found) {
        return Span{value.line, static_cast<int>(found.data() - line.data()) + 1, static_cast<int>(found.size())};
    };
    re2::StringPiece rest(line.substr(begin)), name;
    if (RE2::PartialMatch(re2::StringPiece(line.data(), begin), assigned, &name))
        return span(name);
    RE2::Consume(&rest, brackets);
    while (RE2::Consume(&rest, part, &name)) {
        const std::size_t quote = name[0] == '"' || name[0] == '\'';
        if (std::string_view(name).substr(quote, name.size() - 2 * quote) == key)
            return span(name);
    }
    return value;
}

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
            child.key = place_of_key(source_.line(child.at.line), child.at, name);
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
    static const RE2 form(R"((?:\[error\] )?(?:(?:toml::|parse_).*?: )?(.*))", RE2::Latin1);
    re2::StringPiece rest(what);
    std::string said;
    RE2::Consume(&rest, form, &said);
    return said;
}

std::vector<ParserError::Mark> marks(std::string_view what) {
    static const RE2 form(R"((?m)^ *(\d{1,9}) \| .*\n *( \| [^^~\n]*)[\^~])", RE2::Latin1);
    std::vector<ParserError::Mark> found;
    re2::StringPiece rest(what), gutter;
    for (int line = 0; RE2::FindAndConsume(&rest, form, &line, &gutter);)
        found.push_back({line, static_cast<int>(gutter.size()) - 2});
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

Value parse_lines(const SourceText &source, int first_line, int last_line, const std::vector<bool> &skip) {
    std::string text;
    for (int line = first_line; line <= last_line; ++line) {
        if (!skip[static_cast<std::size_t>(line) - 1])
            text += source.line(line);
        text += '\n';
    }
    std::istringstream stream(text);
    return toml::parse<toml::discard_comments, std::map, Array>(stream, "source");
}

// Of an error that does not say where it is: the parser goes from the first line to the last, so it is the line without
// which, and without all after it, there is no such error.
int line_of_error(const SourceText &source, int first_line, int last_line, const std::vector<bool> &skip) {
    int before = first_line - 1;
    while (last_line - before > 1) {
        const int middle = before + (last_line - before) / 2;
        bool there = false;
        try {
            (void)parse_lines(source, first_line, middle, skip);
        } catch (const toml::exception &) {
            there = false; // of what is cut short there
        } catch (const std::exception &) {
            there = true;
        }
        (there ? last_line : before) = middle;
    }
    return last_line;
}

} // namespace

std::expected<Node, ParserError> parse_toml(const SourceText &source, int first_line, int last_line,
                                            const std::vector<bool> &skip) {
    const int line_offset = first_line - 1;
    try {
        return Converter(source, first_line).root(parse_lines(source, first_line, last_line, skip));
    } catch (const toml::exception &e) {
        return std::unexpected(
            parser_error(e.what(), line_offset, static_cast<int>(e.location().line()) + line_offset));
    } catch (const std::exception &e) { // toml11 lets e.g. std::out_of_range of a number's text through
        return std::unexpected(parser_error(e.what(), line_offset, line_of_error(source, first_line, last_line, skip)));
    }
}

} // namespace incident::rules
