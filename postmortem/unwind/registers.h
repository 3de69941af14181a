// A frame's registers, by DWARF's numbers (System V psABI for x86-64, figure 3.36).  Internal to unwind/.
#pragma once

#include <sys/user.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace incident::postmortem {

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

inline constexpr std::array<std::string_view, 17> register_names{"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
                                                                 "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                                 "r12", "r13", "r14", "r15", "rip"};

// Not set: the value in this frame is unknown.
using Registers = std::array<std::optional<std::uint64_t>, 17>;

inline Registers registers_of(const user_regs_struct &r) {
    return {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
            r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
}

} // namespace incident::postmortem
