// The `format` files of tracefs.  A line of one:
//	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
// Declarations are as the kernel's source writes them: "__data_loc char[] name",
// "const char * name", "enum zone_type zone", "unsigned long args[6]".
#include "rules/filter/filter.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace incident::rules {
namespace {

constexpr std::size_t most_fields = 256;
constexpr std::uint32_t largest_record = 64 * 1024; // perf and trace buffers hold no more

std::string_view trim(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "\toffset:8" → 8
std::optional<std::uint32_t> number(std::string_view part, std::string_view key) {
    part = trim(part);
    if (!part.starts_with(key))
        return std::nullopt;
    part.remove_prefix(key.size());
    std::uint32_t value = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (problem != std::errc() || end != part.data() + part.size())
        return std::nullopt;
    return value;
}

bool is_integer_size(std::uint32_t size) {
    return size == 1 || size == 2 || size == 4 || size == 8;
}

// What the declaration makes of the field: its name and how to read it.
bool declare(std::string_view declaration, TracepointField &field) {
    declaration = trim(declaration);
    bool array = false;
    if (declaration.ends_with(']')) { // "char prev_comm[16]"
        const std::size_t open = declaration.rfind('[');
        if (open == std::string_view::npos)
            return false;
        array = true;
        declaration = trim(declaration.substr(0, open));
    }
    std::size_t begin = declaration.size();
    while (begin > 0 && is_word(declaration[begin - 1]))
        --begin;
    field.name = declaration.substr(begin);
    const std::string_view type = trim(declaration.substr(0, begin));
    if (field.name.empty() || type.empty() || (field.name[0] >= '0' && field.name[0] <= '9'))
        return false;

    const bool data_loc = type.starts_with("__data_loc "), rel_loc = type.starts_with("__rel_loc ");
    if (data_loc || rel_loc) {
        const std::string_view of = trim(type.substr(type.find(' ')));
        const bool text = (of == "char[]" || of == "char []") && field.size == sizeof(std::uint32_t);
        field.kind = text ? TracepointField::Kind::TextAt : TracepointField::Kind::Bytes;
        field.relative = rel_loc;
    } else if (array) {
        field.kind = (type == "char" || type == "const char") && field.size > 0 ? TracepointField::Kind::Text
                                                                                : TracepointField::Kind::Bytes;
    } else {
        const bool record = (type.starts_with("struct ") || type.starts_with("union ")) && !type.ends_with('*');
        const bool list = type.ends_with(']'); // "u8[] x"
        field.kind = is_integer_size(field.size) && !record && !list ? TracepointField::Kind::Integer
                                                                     : TracepointField::Kind::Bytes;
    }
    return true;
}

std::optional<TracepointField> field_of(std::string_view line) {
    constexpr std::string_view begins = "field:";
    line = trim(line);
    if (!line.starts_with(begins))
        return std::nullopt;
    line.remove_prefix(begins.size());
    std::string_view parts[4]; // declaration, offset, size, signed
    for (std::string_view &part : parts) {
        const std::size_t end = line.find(';');
        if (end == std::string_view::npos)
            return std::nullopt;
        part = line.substr(0, end);
        line.remove_prefix(end + 1);
    }
    const auto offset = number(parts[1], "offset:"), size = number(parts[2], "size:"),
               sign = number(parts[3], "signed:");
    if (!offset || !size || *offset > largest_record || *size > largest_record - *offset)
        return std::nullopt;
    TracepointField field{.offset = *offset, .size = *size, .is_signed = sign.value_or(0) != 0};
    if (!declare(parts[0], field))
        return std::nullopt;
    return field;
}

} // namespace

TracepointFormat parse_tracepoint_format(std::string_view text) {
    TracepointFormat format;
    while (!text.empty() && format.fields.size() < most_fields) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (auto field = field_of(text.substr(0, end))) {
            format.size = std::max(format.size, field->offset + field->size);
            format.fields.push_back(std::move(*field));
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return format;
}

} // namespace incident::rules
