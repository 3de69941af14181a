// The filter of a tracepoint rule: an expression over the fields of the tracepoint's
// record, checked against its format (tracefs: events/CATEGORY/NAME/format).
//   prev_state == 2 && (prev_comm ~ "pg*" || prev_prio < 100)
// Operators: == != < <= > >= & (some bits set) on integers; == != ~ (glob) on text;
// && || ! and parentheses.  Integers in decimal, 0x hex, 0 octal; text in "…" or '…'
// without escapes: text that contains one kind of quote is written in the other kind.
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
    bool relative = false; // TextAt: it is a __rel_loc, whose offset counts from the end of the field
    bool operator==(const TracepointField &) const = default;
};

struct TracepointFormat {
    std::vector<TracepointField> fields; // common_* ones included
    std::uint32_t size = 0;              // bytes of the fixed part
};

// Parses the text of a `format` file. A field with an unknown declaration becomes a Bytes field.
TracepointFormat parse_tracepoint_format(std::string_view text);

// An expression tree in an array. Node 0 is the root; an empty tree lets everything pass.
struct Filter {
    enum class Op : std::uint8_t { And, Or, Not, Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, Bits, Glob };
    struct Node {
        Op op;
        int left = -1, right = -1; // And, Or; Not: left
        TracepointField field;     // comparisons; only its name is set while unchecked
        bool is_text = false;
        std::int64_t number = 0; // for an unsigned field, values above INT64_MAX are stored with the same bits
        std::string text;
        // The positions of field and value in the filter's text.
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

// `record` is the raw record, beginning with its first common field. A comparison that would read beyond it does not
// hold. An unchecked filter never holds.
bool holds(const Filter &filter, std::span<const std::uint8_t> record);

// The fields as text for people, without the common_* ones: "prev_comm=postgres prev_state=2 …". Text is escaped.
std::string describe_record(const TracepointFormat &format, std::span<const std::uint8_t> record);

// The part that the kernel side can check: integer comparisons and text prefixes at the top of the filter, joined by
// &&. They are necessary for the filter to hold. The engine checks the whole filter again.
struct FilterClause {
    std::uint32_t offset = 0, size = 0; // size is 1, 2, 4 or 8 bytes; for a prefix its length, at most 16
    bool is_signed = false, is_prefix = false;
    Filter::Op op = Filter::Op::Equal;
    std::int64_t number = 0;
    std::string prefix;
};
std::vector<FilterClause> necessary_clauses(const Filter &filter, std::size_t at_most);

} // namespace incident::rules
