#include "rules/filter/tracepoint_record.h"

#include "rules/text/escape.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace incident::rules {
namespace {

constexpr std::size_t most_bytes_shown = 16;
// User-space addresses end below it: a larger number is a kernel address or a mask.
constexpr std::uint64_t shown_as_hex = std::uint64_t{1} << 48;

std::optional<Record> part(Record record, std::size_t offset, std::size_t size) {
    if (offset > record.size() || size > record.size() - offset)
        return std::nullopt;
    return record.subspan(offset, size);
}

// "__data_loc" and "__rel_loc": length << 16 | offset, of the record or from behind the field.
std::optional<Record> pointed_at(const TracepointField &field, Record record) {
    const auto place = part(record, field.offset, sizeof(std::uint32_t));
    if (!place)
        return std::nullopt;
    std::uint32_t value = 0;
    std::memcpy(&value, place->data(), sizeof value);
    const std::size_t base = field.relative ? field.offset + sizeof value : 0;
    return part(record, base + (value & 0xFFFF), value >> 16);
}

std::string shown_text(const std::string &text) {
    const bool plain = !text.empty() && text.find_first_of(" '=") == std::string::npos;
    return plain ? terminal_safe(text) : quote(text);
}

std::string shown_bytes(Record bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes.size() && i < most_bytes_shown; ++i)
        out += fmt::format("{:02x}", bytes[i]);
    return bytes.size() > most_bytes_shown ? out + "..." : out;
}

std::string shown_integer(const TracepointField &field, std::uint64_t value) {
    if (field.is_signed)
        return std::to_string(static_cast<std::int64_t>(value));
    return value >= shown_as_hex ? fmt::format("{:#x}", value) : std::to_string(value);
}

std::optional<std::string> shown(const TracepointField &field, Record record) {
    switch (field.kind) {
    case TracepointField::Kind::Integer:
        if (const auto value = field_integer(field, record))
            return shown_integer(field, *value);
        break;
    case TracepointField::Kind::Text:
    case TracepointField::Kind::TextAt:
        if (const auto text = field_text(field, record))
            return shown_text(*text);
        break;
    case TracepointField::Kind::Bytes:
        if (const auto bytes = field_bytes(field, record))
            return shown_bytes(*bytes);
        break;
    }
    return std::nullopt;
}

} // namespace

std::optional<Record> field_bytes(const TracepointField &field, Record record) {
    return field.kind == TracepointField::Kind::TextAt ? pointed_at(field, record)
                                                       : part(record, field.offset, field.size);
}

std::optional<std::uint64_t> field_integer(const TracepointField &field, Record record) {
    const auto bytes = part(record, field.offset, field.size);
    if (!bytes || bytes->empty() || bytes->size() > sizeof(std::uint64_t))
        return std::nullopt;
    std::uint64_t value = 0;
    std::memcpy(&value, bytes->data(), bytes->size()); // little-endian, as all of incidentd
    const std::size_t unused = 64 - bytes->size() * 8;
    if (field.is_signed)
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
    return value;
}

std::optional<std::string> field_text(const TracepointField &field, Record record) {
    const auto bytes = field_bytes(field, record);
    if (!bytes)
        return std::nullopt;
    return std::string(bytes->begin(), std::find(bytes->begin(), bytes->end(), std::uint8_t{0}));
}

std::string describe_record(const TracepointFormat &format, Record record) {
    std::string out;
    for (const TracepointField &field : format.fields) {
        if (field.name.starts_with("common_"))
            continue;
        if (const auto value = shown(field, record))
            out += fmt::format("{}{}={}", out.empty() ? "" : " ", terminal_safe(field.name), *value);
    }
    return out;
}

} // namespace incident::rules
