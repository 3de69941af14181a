#include "rules/toml/toml_parse.h"

#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>
#include <re2/re2.h>

namespace incident::rules {
namespace {

constexpr std::string_view one_value_hint = "a key has one value; several go in a list: [\"a\", \"b\"]";

// One syntax error being explained: the line it is on and the place in it.
class Explainer {
public:
    Explainer(const ParserError &error, const Report &report)
        : error_(error), report_(report), line_(report.source().line(error.at.line)),
          place_(std::min<std::size_t>(static_cast<std::size_t>(std::max(error.at.column, 1)) - 1, line_.size())) {}

    SyntaxError explain() const {
        if (says("already exists") || says("collides") || says("immutable") || says("conflicts"))
            return defined_twice();
        if (says("invalid key") || says("empty key"))
            return bad_key();
        if (says("missing key-value separator"))
            return here(1, fmt::format("expected '=' after the key {}", quote(word_before(place_))));
        if (says("missing value after"))
            return here(1, fmt::format("the key {} has no value", quote(key_of_line())));
        if (says("valid multiline string"))
            return here(3, "the multi-line string is not closed");
        if (says("valid string") || says("valid literal string"))
            return bad_string();
        if (says("invalid format") && list_runs_on())
            return list_not_closed();
        if (says("unknown value") || says("invalid format") || error_.message.starts_with("toml::"))
            return bad_value(place_);
        if (says("newline required"))
            return here(line_.size() - place_, "unexpected text behind the table header");
        if (says("`_` should"))
            return here(1, "'_' in a number must stand between two digits");
        if (says("invalid line format") || says("missing table separator") || says("missing array separator") ||
            says("missing curly brace"))
            return unexpected_text();
        if (says("leading zero"))
            return here(word_at(place_).size(), "numbers do not begin with 0", "octal numbers are written 0o755");
        return here(std::max<std::size_t>(word_at(place_).size(), 1), error_.message);
    }

private:
    bool says(std::string_view text) const { return error_.message.find(text) != std::string::npos; }

    SyntaxError at(std::size_t begin, std::size_t length, std::string message, std::string hint) const {
        return {{error_.at.line, static_cast<int>(begin) + 1, static_cast<int>(length)},
                std::move(message),
                std::move(hint)};
    }
    SyntaxError here(std::size_t length, std::string message, std::string hint = "") const {
        return at(place_, length, std::move(message), std::move(hint));
    }

    static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
    static bool ends_word(char c) { return std::string_view(" \t,]}[{#=\"'").find(c) != std::string_view::npos; }

    std::string_view word_at(std::size_t begin) const {
        std::size_t end = begin;
        while (end < line_.size() && !ends_word(line_[end]))
            ++end;
        return line_.substr(begin, end - begin);
    }
    // The length of the word or string that begins at the position.
    std::size_t token_length() const {
        const std::size_t word = word_at(place_).size();
        if (word > 0 || place_ >= line_.size() || (line_[place_] != '"' && line_[place_] != '\''))
            return std::max<std::size_t>(word, 1);
        const std::size_t close = line_.find(line_[place_], place_ + 1);
        return (close == std::string_view::npos ? line_.size() : close + 1) - place_;
    }
    std::size_t word_begin(std::size_t place) const {
        while (place > 0 && !ends_word(line_[place - 1]))
            --place;
        return place;
    }
    std::string_view word_before(std::size_t end) const {
        while (end > 0 && (line_[end - 1] == ' ' || line_[end - 1] == '\t'))
            --end;
        const std::size_t begin = word_begin(end);
        return line_.substr(begin, end - begin);
    }
    std::string_view key_of_line() const { return word_before(std::min(line_.rfind('=', place_), line_.size())); }

    SyntaxError bad_value(std::size_t begin) const {
        const std::string_view word = word_at(begin);
        if (word.empty())
            return at(begin, 1, "a value is missing here", "");
        std::string hint = fmt::format("text needs quotes: \"{}\"", terminal_safe(word));
        if (word[0] >= '0' && word[0] <= '9') {
            const std::size_t unit = std::min(word.find_first_not_of("0123456789"), word.size());
            const bool has_unit = std::all_of(word.begin() + static_cast<std::ptrdiff_t>(unit), word.end(), is_letter);
            hint = has_unit && !word.starts_with("0x") ? fmt::format("a value with a unit needs quotes: \"{}\"", word)
                                                       : "";
        }
        for (std::string_view boolean : {"True", "TRUE", "False", "FALSE", "yes", "no", "on", "off", "Yes", "No"})
            if (word == boolean)
                hint = "a yes or no is written true or false";
        return at(begin, word.size(), fmt::format("{} is not a TOML value", quote(word)), hint);
    }

    // Something follows a complete value where the line should end or a ',' stand.
    SyntaxError unexpected_text() const {
        if (place_ > 0 && place_ < line_.size() && !ends_word(line_[place_]) && !ends_word(line_[place_ - 1]))
            return bad_value(word_begin(place_)); // "5s": toml11 stops behind the number
        if (says("missing array separator") && list_runs_on())
            return list_not_closed();
        if (says("missing curly brace") || (says("table separator") && place_ >= line_.size()))
            return here(1, "the inline table is not closed: '}' is missing on this line",
                        "an inline table is one line; a longer one is written as a [table] of its own");
        if (says("missing array separator"))
            return here(token_length(), "expected ',' or ']' here");
        if (says("missing table separator"))
            return here(token_length(), "expected ',' or '}' here");
        return here(line_.size() - place_, "unexpected text after the value", std::string(one_value_hint));
    }

    // A list that began on an earlier line now meets what looks like a key or a header.
    bool list_runs_on() const {
        const std::string_view rest = line_.substr(place_);
        return error_.first.line != error_.at.line &&
               (rest.starts_with('[') || rest.find('=') != std::string_view::npos || rest.empty());
    }
    SyntaxError list_not_closed() const {
        return {{error_.first.line, error_.first.column, 1},
                "the list is not closed: ']' is missing",
                fmt::format("line {} is read as part of it", error_.at.line)};
    }

    SyntaxError bad_key() const {
        const std::size_t first = line_.find_first_not_of(" \t");
        if (first == std::string_view::npos || place_ >= line_.size())
            return here(1, "the inline table is not closed: '}' is missing on this line",
                        "an inline table is one line; a longer one is written as a [table] of its own");
        if (line_[place_] == '}')
            return here(1, "a key is missing before '}'", "an inline table has no ',' behind its last value");
        if (line_[first] == '[' && place_ <= first + 1) {
            const std::string_view brackets = line_.substr(first).starts_with("[[") ? "[[name]]" : "[name]";
            return at(first, line_.size() - first, "malformed table header",
                      fmt::format("headers are written {}", brackets));
        }
        if (line_[place_] == '=')
            return here(1, "a key is missing before '='");
        return here(std::max<std::size_t>(word_at(place_).size(), 1), "expected a key here",
                    "keys are letters, digits, '_' and '-'; a comment begins with '#'");
    }

    SyntaxError bad_string() const {
        std::size_t begin = place_;
        while (begin < line_.size() && line_[begin] != '"' && line_[begin] != '\'')
            ++begin;
        if (begin >= line_.size())
            return here(1, "malformed string");
        const char mark = line_[begin];
        static const RE2 sound(R"re((?:[^"\\]|\\(?:[btnfr"\\]|u[[:xdigit:]]{4}|U[[:xdigit:]]{8}))*)re", RE2::Latin1);
        re2::StringPiece rest(line_.substr(begin + 1));
        if (mark == '"' && RE2::Consume(&rest, sound) && !rest.empty() && rest[0] == '\\') {
            const std::size_t i = line_.size() - rest.size();
            const std::string_view escape = line_.substr(i, 2);
            if (escape.ends_with('u') || escape.ends_with('U'))
                return at(i, 2, fmt::format("'{}' needs {} hexadecimal digits", escape, escape.ends_with('u') ? 4 : 8),
                          "");
            return at(i, escape.size(), fmt::format("unknown escape {}", quote(escape)),
                      "write '\\\\' for a backslash, or use single quotes: 'a\\b'");
        }
        return at(begin, line_.size() - begin, fmt::format("the string is not closed: {} is missing", mark), "");
    }

    // toml11 points at values, or at headers; a reader looks for the key.
    Span key_at(ParserError::Mark mark) const {
        const std::string_view line = report_.source().line(mark.line);
        const std::size_t begin = std::min<std::size_t>(static_cast<std::size_t>(mark.column) - 1, line.size());
        static const RE2 assigned(R"(([^ \t,{]+)[ \t]*=[ \t]*$)", RE2::Latin1);
        re2::StringPiece key(line.substr(begin));
        RE2::PartialMatch(re2::StringPiece(line.data(), begin), assigned, &key);
        return {mark.line, static_cast<int>(key.data() - line.data()) + 1, static_cast<int>(key.size())};
    }

    SyntaxError defined_twice() const {
        const Location first = report_.location(key_at(error_.first));
        const Span again = key_at(error_.at);
        const std::string_view line = report_.source().line(again.line);
        const std::size_t begin = std::min<std::size_t>(static_cast<std::size_t>(again.column) - 1, line.size());
        const std::string_view name = line.substr(begin, static_cast<std::size_t>(again.length));
        return {again, fmt::format("{} is defined twice", quote(name)),
                fmt::format("first defined at {}:{}:{}", first.file, first.line, first.column)};
    }

    const ParserError &error_;
    const Report &report_;
    std::string_view line_;
    std::size_t place_; // in line_, from 0
};

} // namespace

SyntaxError explain(const ParserError &error, const Report &report) {
    return Explainer(error, report).explain();
}

} // namespace incident::rules
