// Evaluates a checked filter on a raw record, and extracts the part that the kernel side can evaluate.
#include "rules/filter/tracepoint_record.h"
#include "rules/text/glob.h"

#include <algorithm>

namespace incident::rules {
namespace {

constexpr std::size_t longest_prefix = 16;

enum class Truth { No, Yes, Unreadable };

Truth truth(bool value) {
    return value ? Truth::Yes : Truth::No;
}

template <typename T> Truth compare(Filter::Op op, T value, T with) {
    switch (op) {
    case Filter::Op::Equal:
        return truth(value == with);
    case Filter::Op::NotEqual:
        return truth(value != with);
    case Filter::Op::Less:
        return truth(value < with);
    case Filter::Op::LessEqual:
        return truth(value <= with);
    case Filter::Op::Greater:
        return truth(value > with);
    case Filter::Op::GreaterEqual:
        return truth(value >= with);
    case Filter::Op::Bits:
        return truth((value & with) != 0);
    default:
        return Truth::No;
    }
}

Truth compare_text(const Filter::Node &node, Record record) {
    const auto text = field_text(node.field, record);
    if (!text)
        return Truth::Unreadable;
    if (node.op == Filter::Op::Glob)
        return truth(glob_matches(node.text, *text));
    return truth((*text == node.text) == (node.op == Filter::Op::Equal));
}

Truth compare_number(const Filter::Node &node, Record record) {
    const auto value = field_integer(node.field, record);
    if (!value)
        return Truth::Unreadable;
    if (node.field.is_signed)
        return compare<std::int64_t>(node.op, static_cast<std::int64_t>(*value), node.number);
    return compare<std::uint64_t>(node.op, *value, static_cast<std::uint64_t>(node.number));
}

// If a field cannot be read, the filter does not hold, unless the other parts decide it.
Truth evaluate(const Filter &filter, int index, Record record) {
    const Filter::Node &node = filter.nodes[static_cast<std::size_t>(index)];
    switch (node.op) {
    case Filter::Op::Not: {
        const Truth inner = evaluate(filter, node.left, record);
        return inner == Truth::Unreadable ? inner : truth(inner == Truth::No);
    }
    case Filter::Op::And:
    case Filter::Op::Or: {
        const Truth decisive = node.op == Filter::Op::And ? Truth::No : Truth::Yes;
        const Truth left = evaluate(filter, node.left, record);
        if (left == decisive)
            return left;
        const Truth right = evaluate(filter, node.right, record);
        return right == decisive || left == Truth::Yes || left == Truth::No ? right : left;
    }
    default:
        return node.is_text ? compare_text(node, record) : compare_number(node, record);
    }
}

void add_text_clause(const Filter::Node &node, std::vector<FilterClause> &out) {
    if (node.field.kind != TracepointField::Kind::Text || node.op == Filter::Op::NotEqual)
        return;
    std::string prefix(node.op == Filter::Op::Glob ? literal_prefix(node.text) : std::string_view(node.text));
    if (prefix.size() > node.field.size)
        return; // can never hold; the engine says so
    // If the text must end there, its NUL is part of it.
    const bool whole = node.op == Filter::Op::Equal || prefix.size() == node.text.size();
    if (whole && prefix.size() < node.field.size)
        prefix += '\0';
    prefix.resize(std::min(prefix.size(), longest_prefix));
    if (prefix.empty())
        return;
    FilterClause clause{
        .offset = node.field.offset, .size = static_cast<std::uint32_t>(prefix.size()), .is_prefix = true};
    clause.prefix = std::move(prefix);
    out.push_back(std::move(clause));
}

void collect(const Filter &filter, int index, std::vector<FilterClause> &out) {
    const Filter::Node &node = filter.nodes[static_cast<std::size_t>(index)];
    if (node.op == Filter::Op::And) {
        collect(filter, node.left, out);
        collect(filter, node.right, out);
    } else if (node.op == Filter::Op::Or || node.op == Filter::Op::Not) {
        return;
    } else if (node.is_text) {
        add_text_clause(node, out);
    } else {
        out.push_back({.offset = node.field.offset,
                       .size = node.field.size,
                       .is_signed = node.field.is_signed,
                       .op = node.op,
                       .number = node.number});
    }
}

} // namespace

bool holds(const Filter &filter, Record record) {
    return filter.empty() || (filter.checked && evaluate(filter, 0, record) == Truth::Yes);
}

std::vector<FilterClause> necessary_clauses(const Filter &filter, std::size_t at_most) {
    std::vector<FilterClause> clauses;
    if (filter.checked && !filter.empty())
        collect(filter, 0, clauses);
    clauses.resize(std::min(clauses.size(), at_most));
    return clauses;
}

} // namespace incident::rules
