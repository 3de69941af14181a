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

// Behind the 256 bytes of sigcontext_64 and the signal mask's 8 ends the ucontext, and the siginfo begins.
constexpr std::uint64_t siginfo_at = sigcontext_at + 256 + 8;
constexpr std::uint64_t trapno_at = sigcontext_at + 160, cr2_at = sigcontext_at + 176;

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

std::optional<Registers> registers_of_sigframe_whole(std::uint64_t stack_pointer, ProcessMemory &memory) {
    std::uint64_t unread = 0;
    auto registers = registers_of_sigframe(stack_pointer, memory, unread);
    const bool whole =
        registers && std::ranges::all_of(*registers, [](const auto &value) { return value.has_value(); });
    return whole ? registers : std::nullopt;
}

std::optional<FrameSiginfo> siginfo_of_sigframe(std::uint64_t stack_pointer, ProcessMemory &memory) {
    // int si_signo, si_errno, si_code, padding; then the union (asm-generic/siginfo.h)
    const auto number = memory.word(stack_pointer + siginfo_at), code = memory.word(stack_pointer + siginfo_at + 8);
    const auto address = memory.word(stack_pointer + siginfo_at + 16);
    if (!number || !code || !address)
        return std::nullopt;
    return FrameSiginfo{static_cast<int>(static_cast<std::uint32_t>(*number)),
                        static_cast<int>(static_cast<std::uint32_t>(*code)), *address};
}

std::optional<std::uint64_t> page_fault_of_sigframe(std::uint64_t stack_pointer, ProcessMemory &memory) {
    constexpr std::uint64_t page_fault = 14; // X86_TRAP_PF
    return memory.word(stack_pointer + trapno_at) == page_fault ? memory.word(stack_pointer + cr2_at) : std::nullopt;
}

} // namespace incident::postmortem
