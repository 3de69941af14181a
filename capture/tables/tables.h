// The tables that generate.py makes from the headers of the kernel and of libc; see flags.txt and shapes.txt.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace incident::capture::tables {

struct Named {
    std::uint64_t value;
    std::string_view name;
};

// Named numbers of one kind of argument.
struct Set {
    std::string_view name;
    bool flags;                   // the value is an OR of names; else it is one of them
    std::uint64_t mask;           // with flags: the bits that are one value instead
    std::span<const Named> names; // by value; of equal values the first that is defined
};

enum class Shape : std::uint8_t {
    Hex,
    Ptr,
    Fd,
    Dirfd,
    Path,
    Int,
    Uint,
    Long,
    Ulong,
    Octal,
    Mode,
    Dev,
    Signal,
    Set,
    // their meaning depends on other arguments, see decode_special.cpp
    OpenMode,
    CloneFlags,
    Protocol,
    Sockopt,
    FcntlArg,
    Ioctl,
    FutexVal2,
    FutexUaddr2,
    FutexVal3,
    MremapNew,
};

struct Argument {
    Shape shape = Shape::Hex;
    std::uint8_t reg = 0;   // index into the argument registers
    std::uint8_t bits = 64; // declared width; the higher bits of the register may hold anything
    bool wide = false;      // 64 bits in two registers of a 32-bit call: low in reg, high in reg + 1
    const Set *set = nullptr;
};

enum class Class : std::uint8_t { Other, Open, Exec, Memory };
enum class Returns : std::uint8_t { Number, Fd, Pointer };

struct Call {
    std::string_view name;  // empty: no call has this number
    bool known = false;     // its arguments are known
    std::uint8_t count = 0; // of arguments
    std::uint8_t path = 0;  // 1 + register of the first argument that is a path; 0: none
    Class kind = Class::Other;
    Returns returns = Returns::Number;
    std::array<Argument, 6> args{};
};

// Indexed by number.
extern const std::span<const Call> calls64;
extern const std::span<const Call> calls32;
// include/linux/errno.h: what a call returns to the kernel's own entry code, never to user space.
extern const std::span<const Named> restarts;

extern const Set set_open_flags;

// Names sorted at compile time, so that look-ups may bisect.
template <std::size_t N> constexpr std::array<Named, N> sorted(std::array<Named, N> names) {
    for (std::size_t i = 1; i < N; ++i)
        for (std::size_t j = i; j > 0 && names[j].value < names[j - 1].value; --j)
            std::swap(names[j], names[j - 1]);
    return names;
}

} // namespace incident::capture::tables
