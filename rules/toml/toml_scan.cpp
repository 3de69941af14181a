#include "rules/toml/toml_scan.h"

#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>
#include <re2/re2.h>

namespace incident::rules {
namespace {

constexpr int deepest_brackets = 32; // rules need 3
constexpr int longest_dotted_key = 32;

// An array element cannot begin with a bare key, so "[name" starts a table.
struct Header {
    re2::StringPiece name, dot; // "." where a longer name follows
    explicit Header(std::string_view line) {
        static const RE2 form(R"([ \t]*\[[ \t]*\[?[ \t]*([A-Za-z_][\w-]*)[ \t]*(\.?))", RE2::Latin1);
        static const RE2 value("true|false|inf|nan");
        re2::StringPiece rest(line);
        is = RE2::Consume(&rest, form, &name, &dot) && !RE2::FullMatch(name, value);
    }
    bool is = false;
};

// Walks lines, knowing strings, comments and brackets.
class Scanner {
public:
    void line(std::string_view text) {
        static const RE2 token(R"re(("""|'''|"(?:\\.|[^"\\])*"?|'[^']*'?|#.*|[^\[\]{}."'#]+|.))re", RE2::Latin1);
        static const RE2 end_of_basic(R"re((?:\\.|[^\\])*?"""+)re", RE2::Latin1); // """" and """"" end it too
        static const RE2 end_of_literal("[^\n]*?'''+", RE2::Latin1);
        dots_ = 0;
        deepest_column_ = 0;
        const bool header = multi_line_quote_ == 0 && Header(text).is;
        if (header)
            depth_ = 0; // a header cannot stand inside a value: what was open was never closed
        re2::StringPiece rest(text), piece;
        for (;;) {
            if (multi_line_quote_ != 0 &&
                !RE2::Consume(&rest, multi_line_quote_ == '"' ? end_of_basic : end_of_literal))
                break;
            multi_line_quote_ = 0;
            if (!RE2::Consume(&rest, token, &piece))
                break;
            if (piece == R"(""")" || piece == "'''")
                multi_line_quote_ = piece[0];
            else if (piece == "[" || piece == "{")
                open_bracket(static_cast<std::size_t>(piece.data() - text.data()) + 1);
            else if (piece == "]" || piece == "}")
                depth_ = std::max(0, depth_ - 1);
            else
                dots_ += piece == ".";
        }
        if (header) {
            depth_ = 0;
            multi_line_quote_ = 0;
        }
    }

    bool open() const { return depth_ > 0 || multi_line_quote_ != 0; }
    bool in_string() const { return multi_line_quote_ != 0; }
    int dots() const { return dots_; }
    std::size_t deepest_column() const { return deepest_column_; } // from 1, once too deep

private:
    void open_bracket(std::size_t column) {
        if (++depth_ > deepest_brackets && deepest_column_ == 0)
            deepest_column_ = column;
    }

    int depth_ = 0;
    int dots_ = 0; // outside strings, of this line; numbers and dates have at most one per value
    std::size_t deepest_column_ = 0;
    char multi_line_quote_ = 0;
};

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
        const Header header(text);
        shape.header = header.is && !scanner.in_string();
        shape.top_header = shape.header && header.dot.empty();
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
