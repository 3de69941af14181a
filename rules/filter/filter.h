// The filter of a tracepoint rule: an expression over the fields of the tracepoint's
// record, checked against its format (tracefs: events/CATEGORY/NAME/format).
//   prev_state == 2 && (prev_comm ~ "pg*" || prev_prio < 100)
// Operators: == != < <= > >= & (some bits set) on integers; == != ~ (glob) on text;
// && || ! and parentheses.  Integers in decimal, 0x hex, 0 octal; text in "…" or '…'
// without escapes: what holds the one quote is written in the other.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::rules {

struct TracepointField {
    enum class Kind { Integer, Text, TextAt /* __data_loc / __rel_loc char[] */, Bytes } kind = Kind::Integer;
    std::string name;
    std::uint32_t offset = 0, size = 0; // bytes in the record
    bool is_signed = false;
    bool relative = false; // TextAt: __rel_loc, whose offset counts from behind the field
    bool operator==(const TracepointField &) const = default;
};

struct TracepointFormat {
    std::vector<TracepointField> fields; // common_* ones included
    std::uint32_t size = 0;              // bytes of the fixed part
};

// The text of a `format` file; what it does not understand is a Bytes field.
TracepointFormat parse_tracepoint_format(std::string_view text);

// An expression tree in an array; node 0 is the root; empty: everything passes.
struct Filter {
    enum class Op : std::uint8_t { And, Or, Not, Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, Bits, Glob };
    struct Node {
        Op op;
        int left = -1, right = -1; // And, Or; Not: left
        TracepointField field;     // comparisons; only its name is set while unchecked
        bool is_text = false;
        std::int64_t number = 0; // above INT64_MAX: the same bits, for an unsigned field
        std::string text;
        // Where field and value stand in the filter's text.
        std::uint32_t at = 0, length = 0, value_at = 0, value_length = 0;
        bool operator==(const Node &) const = default;
    };
    std::vector<Node> nodes;
    bool checked = false; // fields are resolved
    bool empty() const { return nodes.empty(); }
    bool operator==(const Filter &) const = default;
};

struct FilterError {
    std::size_t at = 0, length = 1; // bytes within the filter text
    std::string message, hint;
};

std::expected<Filter, FilterError> parse_filter(std::string_view text);
// Resolves fields, refuses unknown ones and comparisons of the wrong type.
std::expected<Filter, FilterError> check_filter(Filter filter, std::string_view text, const TracepointFormat &format);

// `record`: the raw record from its first common field on; reading beyond it is "does not
// hold".  An unchecked filter holds for nothing.
bool holds(const Filter &filter, std::span<const std::uint8_t> record);

// "prev_comm=postgres prev_state=2 …": the fields but common_*, for people; text escaped.
std::string describe_record(const TracepointFormat &format, std::span<const std::uint8_t> record);

// What the kernel side can check by itself: integer comparisons and text prefixes that are
// necessary for the filter to hold (the conjunction at its top).  The whole filter is
// checked again by the engine.
struct FilterClause {
    std::uint32_t offset = 0, size = 0; // 1, 2, 4, 8 bytes; for a prefix its length, at most 16
    bool is_signed = false, is_prefix = false;
    Filter::Op op = Filter::Op::Equal;
    std::int64_t number = 0;
    std::string prefix;
};
std::vector<FilterClause> necessary_clauses(const Filter &filter, std::size_t at_most);

} // namespace incident::rules
