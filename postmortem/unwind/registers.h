// A frame's registers, by DWARF's numbers for x86-64 (System V psABI, figure 3.36).  Those of an i386 process stand in
// the places of the registers that they are the lower halves of.  Internal to unwind/.
#pragma once

#include "capture/os/isa.h"

#include <sys/user.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace incident::postmortem {

using capture::Isa;

enum : unsigned {
    dwarf_rax,
    dwarf_rdx,
    dwarf_rcx,
    dwarf_rbx,
    dwarf_rsi,
    dwarf_rdi,
    dwarf_rbp,
    dwarf_rsp,
    dwarf_rip = 16
};

// Not set: the value in this frame is unknown.
using Registers = std::array<std::optional<std::uint64_t>, 17>;

// "rax", "r12", "rip" …; of i386 "eax" …, and "" of those that it does not have.
inline std::string_view register_name(unsigned place, Isa isa) {
    static constexpr std::array<std::string_view, 17> wide{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                                           "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
    static constexpr std::array<std::string_view, 17> narrow{"eax", "edx", "ecx", "ebx", "esi", "edi", "ebp", "esp", "",
                                                             "",    "",    "",    "",    "",    "",    "",    "eip"};
    return place >= wide.size() ? "" : isa == Isa::i386 ? narrow[place] : wide[place];
}

// The places of i386's registers, by its own numbers (System V psABI for i386, table 2.14).
inline constexpr std::array<unsigned, 9> i386_places{dwarf_rax, dwarf_rcx, dwarf_rdx, dwarf_rbx, dwarf_rsp,
                                                     dwarf_rbp, dwarf_rsi, dwarf_rdi, dwarf_rip};
inline constexpr unsigned no_place = 255; // of a register that is not kept

// Where the register with this DWARF number stands.
inline unsigned place_of(std::uint64_t number, Isa isa) {
    if (isa == Isa::i386)
        return number < i386_places.size() ? i386_places[number] : no_place;
    return number < std::tuple_size<Registers>() ? static_cast<unsigned>(number) : no_place;
}

// DWARF's number of a place's register; not set: the instruction set has none there.
inline std::optional<int> number_of(unsigned place, Isa isa) {
    if (isa != Isa::i386)
        return static_cast<int>(place);
    const auto found = std::ranges::find(i386_places, place);
    return found == i386_places.end() ? std::nullopt : std::optional(static_cast<int>(found - i386_places.begin()));
}

// A function gives it back as it was (psABI for x86-64, 3.2.1; for i386, 2.2.1).  Without the stack pointer.
inline bool is_preserved(unsigned place, Isa isa) {
    if (place == dwarf_rbx || place == dwarf_rbp)
        return true;
    return isa == Isa::i386 ? place == dwarf_rsi || place == dwarf_rdi : place >= 12 && place <= 15;
}

inline Registers registers_of(const user_regs_struct &r, Isa isa) {
    Registers registers{r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                        r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
    for (unsigned place = 0; place < registers.size(); ++place) {
        if (!number_of(place, isa))
            registers[place].reset();
        else
            *registers[place] &= capture::word_mask(isa);
    }
    return registers;
}

} // namespace incident::postmortem
