// Values in a tracepoint's raw record, read without trusting it.
#pragma once

#include "rules/filter/filter.h"

#include <optional>

namespace incident::rules {

using Record = std::span<const std::uint8_t>;

// The bytes of a field, nullopt where the record is shorter.
std::optional<Record> field_bytes(const TracepointField &field, Record record);
// An Integer field, sign-extended to 64 bits or not as it is signed.
std::optional<std::uint64_t> field_integer(const TracepointField &field, Record record);
// Text and TextAt, up to its NUL.
std::optional<std::string> field_text(const TracepointField &field, Record record);

} // namespace incident::rules
