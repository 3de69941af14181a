// The words of a tracepoint filter.
#pragma once

#include "rules/filter/filter.h"

namespace incident::rules {

struct FilterToken {
    enum class Kind { Name, Number, Text, Compare, And, Or, Not, Open, Close, End };
    Kind kind = Kind::End;
    std::size_t at = 0, length = 0;    // in the filter's text
    std::string text;                  // Name; Text without its quotes
    std::int64_t number = 0;           // Number
    Filter::Op op = Filter::Op::Equal; // Compare
};

// Ends with an End token.
std::expected<std::vector<FilterToken>, FilterError> filter_tokens(std::string_view text);

} // namespace incident::rules
