// Prints one argument of a call: numbers, flag names, and shapes whose meaning depends on another argument.  Internal
// to capture/; others use syscalls.h.
#pragma once

#include "capture/tables/tables.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::capture::decode {

// The entry of number nr; it has no name if the table has none.
const tables::Call &call_of(int nr, bool compat);

// A call's arguments as the registers held them.
struct Registers {
    const tables::Call &call;
    const std::uint64_t *values; // SYSCALL_ARGS of them
    bool compat;

    // Argument number index, cut to its declared width or put together from its two registers.
    std::uint64_t value(std::size_t index) const;
    std::int64_t signed_value(std::size_t index) const;
};

// Name of value in the set; "" if it has none.
std::string_view name_in(const tables::Set &set, std::uint64_t value);
// The names that make up the value, joined with '|'; the rest in hex.
void append_set(std::string &out, const tables::Set &set, std::uint64_t value);
// "SIGTERM", else the number.
void append_signal(std::string &out, int number);

// Appends argument number index (path: as recorded, or null).  false: the call does not use this argument, so leave it
// out.
bool append_argument(std::string &out, const Registers &registers, std::size_t index, const std::string *path);
// The shapes that depend on other arguments (decode_special.cpp).
bool append_special(std::string &out, const Registers &registers, std::size_t index);

} // namespace incident::capture::decode
