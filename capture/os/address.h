// Numbers that say where a byte is.  Each kind has its own type, so an address in a process cannot be taken for one in
// the file that it was mapped from, nor for a place in that file: a probe at the wrong one of these hits other code,
// and a name looked up by the wrong one is another function's.
#pragma once

#include <compare>
#include <cstdint>

namespace incident::capture {

// Computed modulo 2^64, so hostile numbers give wrong places and do no other harm.
template <typename Kind> struct BytePlace {
    std::uint64_t value = 0;

    constexpr BytePlace() = default;
    constexpr explicit BytePlace(std::uint64_t number) : value(number) {}
    auto operator<=>(const BytePlace &) const = default;

    constexpr BytePlace operator+(std::uint64_t bytes) const { return BytePlace(value + bytes); }
    constexpr BytePlace operator-(std::uint64_t bytes) const { return BytePlace(value - bytes); }
    constexpr std::uint64_t operator-(BytePlace other) const { return value - other.value; } // bytes from other to this
};

using UserAddress = BytePlace<struct OfProcess>; // in the memory of a process
using LinkAddress = BytePlace<struct OfLinker>;  // as an ELF file says it (p_vaddr, st_value, DWARF): before relocation
using FileOffset = BytePlace<struct OfFile>;     // in a file, bytes from its beginning

// How far a process has an ELF file from where it was linked to be; 0 for a program that is not relocated.
struct LoadBias {
    std::uint64_t value = 0;

    constexpr LoadBias() = default;
    constexpr explicit LoadBias(std::uint64_t bytes) : value(bytes) {}
    bool operator==(const LoadBias &) const = default;
};

constexpr UserAddress operator+(LinkAddress linked, LoadBias bias) {
    return UserAddress(linked.value + bias.value);
}
constexpr LinkAddress operator-(UserAddress address, LoadBias bias) {
    return LinkAddress(address.value - bias.value);
}
constexpr LoadBias operator-(UserAddress address, LinkAddress linked) {
    return LoadBias(address.value - linked.value);
}

} // namespace incident::capture
