#include "postmortem/unwind/sigframe.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace incident::postmortem {

namespace {

constexpr std::array<std::string_view, 2> sigreturn_codes{std::string_view("\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9),
                                                          std::string_view("\xb8\x0f\0\0\0\x0f\x05", 7)};

// struct rt_sigframe without the return address already popped: a ucontext, whose sigcontext_64 begins at its
// byte 40 (arch/x86/include/asm/sigframe.h, uapi/asm/sigcontext.h), with the registers in this order.
constexpr std::uint64_t sigcontext_at = 40;
constexpr std::array<unsigned, 17> sigcontext_order{8,         9,         10,        11,        12,        13,
                                                    14,        15,        dwarf_rdi, dwarf_rsi, dwarf_rbp, dwarf_rbx,
                                                    dwarf_rdx, dwarf_rax, dwarf_rcx, dwarf_rsp, dwarf_rip};

} // namespace

bool is_sigreturn_at(std::uint64_t address, ProcessMemory &memory) {
    char code[9];
    const std::string_view bytes(code, memory.read(address, code));
    return std::ranges::any_of(sigreturn_codes, [&](std::string_view known) { return bytes.starts_with(known); });
}

std::optional<Registers> registers_of_sigframe(std::uint64_t stack_pointer, ProcessMemory &memory,
                                               std::uint64_t &unread) {
    Registers registers;
    std::uint64_t at = stack_pointer + sigcontext_at;
    for (const unsigned number : sigcontext_order) {
        registers[number] = memory.word(at);
        if (number == dwarf_rip && !registers[number]) {
            unread = at;
            return std::nullopt;
        }
        at += sizeof(std::uint64_t);
    }
    return registers;
}

} // namespace incident::postmortem
