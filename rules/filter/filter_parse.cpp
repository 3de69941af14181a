// Parses a filter's text into a tree. Precedence is as in C: ! before && before ||.
#include "rules/filter/filter_lexer.h"
#include "rules/text/escape.h"

#include <fmt/format.h>
#include <utility>

namespace incident::rules {
namespace {

constexpr std::size_t longest_filter = 4096;
constexpr std::size_t most_nodes = 256; // bounds every walk over the tree, and its depth
constexpr int deepest_nesting = 32;     // of ( and !

using Parsed = std::expected<int, FilterError>; // a node

class FilterParser {
public:
    explicit FilterParser(std::vector<FilterToken> tokens) : tokens_(std::move(tokens)) {}

    std::expected<Filter, FilterError> run() {
        const Parsed root = either();
        if (!root)
            return std::unexpected(root.error());
        if (const FilterToken &rest = token(); rest.kind == FilterToken::Kind::Close)
            return std::unexpected(error(rest, "')' without '('"));
        else if (rest.kind != FilterToken::Kind::End)
            return std::unexpected(error(rest, "expected && or || here"));
        move_to_front(*root);
        return std::move(filter_);
    }

private:
    const FilterToken &token() const { return tokens_[next_]; }
    static FilterError error(const FilterToken &at, std::string message, std::string hint = "") {
        return {at.at, std::max<std::size_t>(at.length, 1), std::move(message), std::move(hint)};
    }

    Parsed either() {
        return chain(FilterToken::Kind::Or, Filter::Op::Or, [this] { return both(); });
    }
    Parsed both() {
        return chain(FilterToken::Kind::And, Filter::Op::And, [this] { return one(); });
    }

    template <typename Side> Parsed chain(FilterToken::Kind between, Filter::Op op, Side side) {
        Parsed left = side();
        while (left && token().kind == between) {
            const FilterToken &at = tokens_[next_++];
            const Parsed right = side();
            if (!right)
                return right;
            left = add(at, {.op = op, .left = *left, .right = *right});
        }
        return left;
    }

    Parsed one() {
        const FilterToken &at = token();
        if (at.kind != FilterToken::Kind::Not && at.kind != FilterToken::Kind::Open)
            return comparison();
        if (++depth_ > deepest_nesting)
            return std::unexpected(error(at, fmt::format("nested deeper than {} levels", deepest_nesting)));
        ++next_;
        Parsed inner = at.kind == FilterToken::Kind::Not ? one() : either();
        --depth_;
        if (!inner)
            return inner;
        if (at.kind == FilterToken::Kind::Not)
            return add(at, {.op = Filter::Op::Not, .left = *inner});
        if (token().kind != FilterToken::Kind::Close)
            return std::unexpected(token().kind == FilterToken::Kind::End
                                       ? error(at, "'(' is not closed")
                                       : error(token(), "expected && or || or ')' here"));
        ++next_;
        return inner;
    }

    Parsed comparison() {
        const FilterToken &field = token();
        if (field.kind == FilterToken::Kind::Number || field.kind == FilterToken::Kind::Text)
            return std::unexpected(
                error(field, "a comparison begins with a field", "write prev_prio < 100, not 100 > prev_prio"));
        if (field.kind != FilterToken::Kind::Name)
            return std::unexpected(error(field, field.kind == FilterToken::Kind::End
                                                    ? "the filter ends where a field should stand"
                                                    : "expected a field here"));
        const FilterToken &op = tokens_[++next_];
        if (op.kind != FilterToken::Kind::Compare)
            return std::unexpected(error(op, fmt::format("the field '{}' is not compared with anything", field.text),
                                         fmt::format("write {} != 0", field.text)));
        const FilterToken &value = tokens_[++next_];
        if (value.kind == FilterToken::Kind::Name)
            return std::unexpected(
                error(value, fmt::format("'{}' is not a value", value.text),
                      fmt::format("fields are compared with numbers and text; text needs quotes: '{}'", value.text)));
        if (value.kind != FilterToken::Kind::Number && value.kind != FilterToken::Kind::Text)
            return std::unexpected(error(value, "a value is missing here", "a number, or \"text\""));
        const bool is_text = value.kind == FilterToken::Kind::Text;
        if (is_text != takes_text(op.op, is_text))
            return std::unexpected(error(
                value, is_text ? "this operator compares numbers, found text" : "'~' compares text, found a number",
                is_text ? "text is compared with ==, != and ~" : "write the pattern in quotes"));
        ++next_;
        return add(field, {.op = op.op,
                           .field = {.name = field.text},
                           .is_text = is_text,
                           .number = value.number,
                           .text = value.text,
                           .at = static_cast<std::uint32_t>(field.at),
                           .length = static_cast<std::uint32_t>(field.length),
                           .value_at = static_cast<std::uint32_t>(value.at),
                           .value_length = static_cast<std::uint32_t>(value.length)});
    }

    static bool takes_text(Filter::Op op, bool otherwise) {
        return op == Filter::Op::Equal || op == Filter::Op::NotEqual ? otherwise : op == Filter::Op::Glob;
    }

    Parsed add(const FilterToken &at, Filter::Node node) {
        if (filter_.nodes.size() == most_nodes)
            return std::unexpected(error(at, fmt::format("the filter has more than {} parts", most_nodes)));
        filter_.nodes.push_back(std::move(node));
        return static_cast<int>(filter_.nodes.size()) - 1;
    }

    void move_to_front(int root) {
        if (root == 0)
            return;
        for (Filter::Node &node : filter_.nodes)
            for (int *child : {&node.left, &node.right})
                if (*child == 0)
                    *child = root;
        std::swap(filter_.nodes[0], filter_.nodes[static_cast<std::size_t>(root)]);
    }

    std::vector<FilterToken> tokens_;
    std::size_t next_ = 0;
    int depth_ = 0;
    Filter filter_;
};

} // namespace

std::expected<Filter, FilterError> parse_filter(std::string_view text) {
    if (text.size() > longest_filter)
        return std::unexpected(
            FilterError{0, text.size(), fmt::format("the filter is longer than {} bytes", longest_filter), ""});
    auto tokens = filter_tokens(text);
    if (!tokens)
        return std::unexpected(std::move(tokens.error()));
    if (tokens->size() == 1)
        return std::unexpected(FilterError{0, std::max<std::size_t>(text.size(), 1), "the filter is empty",
                                           "leave 'filter' out: every hit counts"});
    return FilterParser(std::move(*tokens)).run();
}

} // namespace incident::rules
