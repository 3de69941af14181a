// Checks a filter against the format of its tracepoint: fields must exist and have the type they are compared as.
#include "rules/filter/filter.h"
#include "rules/text/escape.h"
#include "rules/text/suggest.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace incident::rules {
namespace {

FilterError at_field(const Filter::Node &node, std::string message, std::string hint = "") {
    return {node.at, node.length, std::move(message), std::move(hint)};
}
FilterError at_value(const Filter::Node &node, std::string message, std::string hint = "") {
    return {node.value_at, node.value_length, std::move(message), std::move(hint)};
}

std::string field_hint(const std::string &name, const TracepointFormat &format) {
    std::vector<std::string> names, own;
    for (const TracepointField &field : format.fields) {
        names.push_back(terminal_safe(field.name));
        if (!field.name.starts_with("common_"))
            own.push_back(names.back());
    }
    const std::string near = nearest(name, names);
    return near.empty() ? fmt::format("its fields: {}", join(own)) : fmt::format("did you mean '{}'?", near);
}

// The range of an integer field, in the bits in which a number is compared.
std::optional<FilterError> out_of_range(const Filter::Node &node, std::string_view text) {
    const TracepointField &field = node.field;
    const bool negative = text.substr(node.value_at).starts_with('-');
    const std::uint32_t bits = field.size * 8;
    if (field.is_signed) {
        const std::int64_t most = bits == 64 ? INT64_MAX : (std::int64_t{1} << (bits - 1)) - 1;
        const bool fits = node.number <= most && node.number >= -most - 1 && (negative || node.number >= 0);
        // 0xffffffff for -1 of 32 bits and the like are taken for a mistake as well.
        if (!fits)
            return at_value(node, fmt::format("'{}' is {} to {}", field.name, -most - 1, most));
    } else {
        const std::uint64_t most = bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1;
        if ((negative && node.number != 0) || static_cast<std::uint64_t>(node.number) > most)
            return at_value(node, fmt::format("'{}' is 0 to {}", field.name, most));
    }
    return std::nullopt;
}

std::optional<FilterError> check(Filter::Node &node, std::string_view text, const TracepointFormat &format) {
    const auto found = std::find_if(format.fields.begin(), format.fields.end(),
                                    [&](const TracepointField &field) { return field.name == node.field.name; });
    if (found == format.fields.end())
        return at_field(node, fmt::format("unknown field '{}'", node.field.name), field_hint(node.field.name, format));
    node.field = *found;
    if (found->kind == TracepointField::Kind::Bytes)
        return at_field(node, fmt::format("'{}' is neither a number nor text: it cannot be compared", found->name));
    const bool text_field = found->kind != TracepointField::Kind::Integer;
    if (text_field && !node.is_text)
        return at_value(node, fmt::format("'{}' is text, found a number", found->name), "write the value in quotes");
    if (!text_field && node.is_text)
        return at_value(node, fmt::format("'{}' is a number, found text", found->name));
    if (found->kind == TracepointField::Kind::Text && node.op != Filter::Op::Glob && node.text.size() > found->size)
        return at_value(node,
                        fmt::format("'{}' has {} bytes, this text has {}", found->name, found->size, node.text.size()));
    return text_field ? std::nullopt : out_of_range(node, text);
}

} // namespace

std::expected<Filter, FilterError> check_filter(Filter filter, std::string_view text, const TracepointFormat &format) {
    for (Filter::Node &node : filter.nodes)
        if (node.op != Filter::Op::And && node.op != Filter::Op::Or && node.op != Filter::Op::Not)
            if (auto error = check(node, text, format))
                return std::unexpected(std::move(*error));
    filter.checked = true;
    return filter;
}

} // namespace incident::rules
