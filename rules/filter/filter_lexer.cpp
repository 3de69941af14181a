#include "rules/filter/filter_lexer.h"

#include "rules/text/escape.h"

#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace incident::rules {
namespace {

constexpr std::size_t longest_text = 255; // of one literal; no field that is compared is longer

bool begins_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

struct Word {
    std::string_view text;
    FilterToken::Kind kind;
    Filter::Op op = Filter::Op::Equal;
    const char *instead = nullptr; // not an operator here: what is meant
};

// Longest first.
constexpr Word words[] = {
    {"===", FilterToken::Kind::Compare, Filter::Op::Equal, "=="},
    {"!==", FilterToken::Kind::Compare, Filter::Op::Equal, "!="},
    {"&&", FilterToken::Kind::And},
    {"||", FilterToken::Kind::Or},
    {"==", FilterToken::Kind::Compare, Filter::Op::Equal},
    {"!=", FilterToken::Kind::Compare, Filter::Op::NotEqual},
    {"<=", FilterToken::Kind::Compare, Filter::Op::LessEqual},
    {">=", FilterToken::Kind::Compare, Filter::Op::GreaterEqual},
    {"=~", FilterToken::Kind::Compare, Filter::Op::Glob, "~"},
    {"!~", FilterToken::Kind::Compare, Filter::Op::Glob, "!(field ~ \"pattern\")"},
    {"<>", FilterToken::Kind::Compare, Filter::Op::NotEqual, "!="},
    {"=<", FilterToken::Kind::Compare, Filter::Op::LessEqual, "<="},
    {"=>", FilterToken::Kind::Compare, Filter::Op::GreaterEqual, ">="},
    {"=", FilterToken::Kind::Compare, Filter::Op::Equal, "=="},
    {"<", FilterToken::Kind::Compare, Filter::Op::Less},
    {">", FilterToken::Kind::Compare, Filter::Op::Greater},
    {"&", FilterToken::Kind::Compare, Filter::Op::Bits},
    {"~", FilterToken::Kind::Compare, Filter::Op::Glob},
    {"!", FilterToken::Kind::Not},
    {"(", FilterToken::Kind::Open},
    {")", FilterToken::Kind::Close},
    {"|", FilterToken::Kind::Or, Filter::Op::Equal, "||"},
};

class Lexer {
public:
    explicit Lexer(std::string_view text) : text_(text) {}

    std::expected<std::vector<FilterToken>, FilterError> run() {
        for (;;) {
            while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
                ++at_;
            if (at_ == text_.size()) {
                tokens_.push_back({.kind = FilterToken::Kind::End, .at = at_});
                return std::move(tokens_);
            }
            if (auto error = next())
                return std::unexpected(std::move(*error));
        }
    }

private:
    using Problem = std::optional<FilterError>;

    Problem next() {
        const char c = text_[at_];
        if (begins_name(c))
            return name();
        if (is_digit(c) || (c == '-' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
            return number();
        if (c == '"' || c == '\'')
            return quoted();
        for (const Word &word : words)
            if (text_.substr(at_).starts_with(word.text)) {
                if (word.instead != nullptr)
                    return FilterError{at_, word.text.size(), fmt::format("'{}' is no operator", word.text),
                                       fmt::format("write {}", word.instead)};
                return add(word.kind, word.text.size(), {}, 0, word.op);
            }
        const Character odd = next_character(text_.substr(at_));
        return FilterError{at_, odd.bytes,
                           fmt::format("unexpected {} in the filter", quote(text_.substr(at_, odd.bytes))),
                           "it is made of fields, numbers, \"text\" and == != < <= > >= & ~ && || ! ( )"};
    }

    Problem add(FilterToken::Kind kind, std::size_t length, std::string text = {}, std::int64_t number = 0,
                Filter::Op op = Filter::Op::Equal) {
        tokens_.push_back({kind, at_, length, std::move(text), number, op});
        at_ += length;
        return std::nullopt;
    }

    std::size_t word_length() const {
        std::size_t end = at_ + 1;
        while (end < text_.size() && (begins_name(text_[end]) || is_digit(text_[end])))
            ++end;
        return end - at_;
    }

    Problem name() {
        const std::string_view word = text_.substr(at_, word_length());
        for (const auto &[written, meant] :
             {std::pair{"and", "&&"}, {"or", "||"}, {"not", "!"}, {"AND", "&&"}, {"OR", "||"}, {"NOT", "!"}})
            if (word == written)
                return FilterError{at_, word.size(), fmt::format("'{}' is no operator", word),
                                   fmt::format("write {}", meant)};
        return add(FilterToken::Kind::Name, word.size(), std::string(word));
    }

    // Above INT64_MAX the bits are kept: for addresses.
    Problem number() {
        const std::string_view word = text_.substr(at_, word_length());
        const bool negative = word[0] == '-';
        std::string_view digits = word.substr(negative);
        int base = 10;
        if (digits.starts_with("0x") || digits.starts_with("0X")) {
            base = 16;
            digits.remove_prefix(2);
        } else if (digits.size() > 1 && digits[0] == '0') {
            base = 8;
            digits.remove_prefix(1);
        }
        std::uint64_t value = 0;
        const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
        if (problem == std::errc::result_out_of_range || (negative && value > std::uint64_t{1} << 63))
            return FilterError{at_, word.size(), fmt::format("{} does not fit into 64 bits", quote(word)), ""};
        if (problem != std::errc() || end != digits.data() + digits.size())
            return FilterError{at_, word.size(), fmt::format("{} is not a number", quote(word)),
                               "numbers are written 12, 0x1f or 0644; text needs quotes"};
        return add(FilterToken::Kind::Number, word.size(), {}, static_cast<std::int64_t>(negative ? -value : value));
    }

    Problem quoted() {
        const std::size_t close = text_.find(text_[at_], at_ + 1);
        if (close == std::string_view::npos)
            return FilterError{at_, text_.size() - at_,
                               fmt::format("the text is not closed: {} is missing", text_[at_]), ""};
        const std::string_view inside = text_.substr(at_ + 1, close - at_ - 1);
        if (inside.size() > longest_text || inside.find('\0') != std::string_view::npos)
            return FilterError{at_, inside.size() + 2, "the text is too long or has a NUL in it", ""};
        return add(FilterToken::Kind::Text, inside.size() + 2, std::string(inside));
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::vector<FilterToken> tokens_;
};

} // namespace

std::expected<std::vector<FilterToken>, FilterError> filter_tokens(std::string_view text) {
    return Lexer(text).run();
}

} // namespace incident::rules
