// The `format` files of tracefs.  A line of one:
//	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
// Declarations are as the kernel's source writes them: "__data_loc char[] name",
// "const char * name", "enum zone_type zone", "unsigned long args[6]".
#include "rules/filter/filter.h"

#include <algorithm>
#include <re2/re2.h>

namespace incident::rules {
namespace {

constexpr std::size_t most_fields = 256;
constexpr std::uint32_t largest_record = 64 * 1024; // perf and trace buffers hold no more

bool is_integer_size(std::uint32_t size) {
    return size == 1 || size == 2 || size == 4 || size == 8;
}

// What the declaration makes of the field: its name and how to read it.
bool declare(re2::StringPiece declaration, TracepointField &field) {
    static const RE2 form(R"([ \t]*(\S.*?)[ \t]*\b([A-Za-z_]\w*)[ \t]*(\[[^\[]*\])?[ \t]*)", RE2::Latin1);
    static const RE2 elsewhere(R"(__(data|rel)_loc +(.*))", RE2::Latin1);
    re2::StringPiece type, array, how, of;
    if (!RE2::FullMatch(declaration, form, &type, &field.name, &array))
        return false;
    if (RE2::FullMatch(type, elsewhere, &how, &of)) {
        const bool text = (of == "char[]" || of == "char []") && field.size == sizeof(std::uint32_t);
        field.kind = text ? TracepointField::Kind::TextAt : TracepointField::Kind::Bytes;
        field.relative = how == "rel";
    } else if (!array.empty()) { // "char prev_comm[16]"
        field.kind = (type == "char" || type == "const char") && field.size > 0 ? TracepointField::Kind::Text
                                                                                : TracepointField::Kind::Bytes;
    } else {
        const bool record = (type.starts_with("struct ") || type.starts_with("union ")) && !type.ends_with("*");
        const bool list = type.ends_with("]"); // "u8[] x"
        field.kind = is_integer_size(field.size) && !record && !list ? TracepointField::Kind::Integer
                                                                     : TracepointField::Kind::Bytes;
    }
    return true;
}

} // namespace

TracepointFormat parse_tracepoint_format(std::string_view text) {
    static const RE2 line(R"((?m)^[ \t]*field:([^;\n]*);[ \t]*offset:(\d{1,9})[ \t]*;[ \t]*size:(\d{1,9})[ \t]*;)"
                          R"([ \t]*(?:signed:(\d+)[ \t]*;|[^;\n]*;))",
                          RE2::Latin1);
    TracepointFormat format;
    re2::StringPiece rest(text), declaration, sign;
    for (TracepointField field; format.fields.size() < most_fields &&
                                RE2::FindAndConsume(&rest, line, &declaration, &field.offset, &field.size, &sign);
         field = {}) {
        field.is_signed = !sign.empty() && sign != "0";
        if (field.offset > largest_record || field.size > largest_record - field.offset || !declare(declaration, field))
            continue;
        format.size = std::max(format.size, field.offset + field.size);
        format.fields.push_back(std::move(field));
    }
    return format;
}

} // namespace incident::rules
