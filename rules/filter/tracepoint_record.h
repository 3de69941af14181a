// Reads values from a tracepoint's raw record without trusting the record.
#pragma once

#include "rules/filter/filter.h"

#include <optional>

namespace incident::rules {

using Record = std::span<const std::uint8_t>;

// The bytes of a field; nullopt if the record is too short.
std::optional<Record> field_bytes(const TracepointField &field, Record record);
// The value of an Integer field as 64 bits; sign-extended if the field is signed.
std::optional<std::uint64_t> field_integer(const TracepointField &field, Record record);
// The value of a Text or TextAt field, up to its NUL.
std::optional<std::string> field_text(const TracepointField &field, Record record);

} // namespace incident::rules
