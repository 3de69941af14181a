#include "postmortem/unwind/sigframe.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace incident::postmortem {

namespace {

using namespace std::string_view_literals;

struct Trampoline {
    std::string_view code;
    Sigreturn kind;
};
constexpr std::array<Trampoline, 2> trampolines{
    {{"\x48\xc7\xc0\x0f\0\0\0\x0f\x05"sv, Sigreturn::rt}, {"\xb8\x0f\0\0\0\x0f\x05"sv, Sigreturn::rt}}};
constexpr std::array<Trampoline, 2> trampolines_i386{
    {{"\xb8\xad\0\0\0\xcd\x80"sv, Sigreturn::rt}, {"\x58\xb8\x77\0\0\0\xcd\x80"sv, Sigreturn::old}}};

struct SavedRegister {
    unsigned place;
    std::uint64_t offset; // in the sigcontext
};

// Offsets from the stack pointer that the trampoline has, with the handler's return address already popped
// (arch/x86/include/asm/sigframe.h, uapi/asm/sigcontext.h, ia32.h).
struct FrameLayout {
    std::uint64_t sigcontext = 0, siginfo = 0; // siginfo 0: there is none
    std::uint64_t siginfo_address = 0;         // in it: behind si_signo, si_errno, si_code
    std::uint64_t trapno = 0, cr2 = 0;         // in the sigcontext
    std::vector<SavedRegister> registers;      // the instruction pointer is among them
};

// A ucontext, with its sigcontext_64 at byte 40; behind that's 256 bytes and the signal mask's 8 the siginfo.
FrameLayout wide_layout() {
    constexpr std::array<unsigned, 17> order{8,         9,         10,        11,        12,        13,
                                             14,        15,        dwarf_rdi, dwarf_rsi, dwarf_rbp, dwarf_rbx,
                                             dwarf_rdx, dwarf_rax, dwarf_rcx, dwarf_rsp, dwarf_rip};
    FrameLayout layout{40, 40 + 256 + 8, 16, 160, 176, {}};
    for (std::size_t i = 0; i < order.size(); ++i)
        layout.registers.push_back({order[i], i * sizeof(std::uint64_t)});
    return layout;
}

// sigframe_ia32: the signal's number, then a sigcontext_32.  rt_sigframe_ia32: the number and two pointers, the siginfo
// of 128 bytes, and a ucontext_ia32 with its sigcontext_32 at byte 20.
FrameLayout narrow_layout(Sigreturn kind) {
    FrameLayout layout{4, 0, 12, 48, 84, {}};
    if (kind == Sigreturn::rt) {
        layout.siginfo = 12;
        layout.sigcontext = layout.siginfo + 128 + 20;
    }
    layout.registers = {{dwarf_rdi, 16}, {dwarf_rsi, 20}, {dwarf_rbp, 24}, {dwarf_rsp, 28}, {dwarf_rbx, 32},
                        {dwarf_rdx, 36}, {dwarf_rcx, 40}, {dwarf_rax, 44}, {dwarf_rip, 56}};
    return layout;
}

const FrameLayout &layout_of(Sigreturn kind, Isa isa) {
    static const FrameLayout wide = wide_layout(), rt = narrow_layout(Sigreturn::rt),
                             old = narrow_layout(Sigreturn::old);
    return isa == Isa::x86_64 ? wide : kind == Sigreturn::old ? old : rt;
}

// What is known of a frame whose trampoline is described by unwind information, and was not captured.
bool is_known(Sigreturn kind, Isa isa) {
    return kind != Sigreturn::none || isa == Isa::x86_64;
}

} // namespace

Sigreturn sigreturn_at(std::uint64_t address, ProcessMemory &memory) {
    char code[9];
    const std::string_view bytes(code, memory.read(address, code));
    for (const Trampoline &known : memory.isa() == Isa::i386 ? trampolines_i386 : trampolines)
        if (bytes.starts_with(known.code))
            return known.kind;
    return Sigreturn::none;
}

std::optional<Registers> registers_of_sigframe(std::uint64_t stack_pointer, Sigreturn kind, ProcessMemory &memory,
                                               std::uint64_t &unread) {
    if (!is_known(kind, memory.isa()))
        return std::nullopt;
    const FrameLayout &layout = layout_of(kind, memory.isa());
    Registers registers;
    for (const SavedRegister &saved : layout.registers) {
        const std::uint64_t at = stack_pointer + layout.sigcontext + saved.offset;
        registers[saved.place] = memory.word(at);
        if (saved.place == dwarf_rip && !registers[saved.place]) {
            unread = at;
            return std::nullopt;
        }
    }
    return registers;
}

std::optional<Registers> registers_of_sigframe_whole(std::uint64_t stack_pointer, Sigreturn kind,
                                                     ProcessMemory &memory) {
    std::uint64_t unread = 0;
    auto registers = registers_of_sigframe(stack_pointer, kind, memory, unread);
    if (!registers)
        return std::nullopt;
    const auto &saved = layout_of(kind, memory.isa()).registers;
    const bool whole =
        std::ranges::all_of(saved, [&](const SavedRegister &one) { return (*registers)[one.place].has_value(); });
    return whole ? registers : std::nullopt;
}

std::optional<FrameSiginfo> siginfo_of_sigframe(std::uint64_t stack_pointer, Sigreturn kind, ProcessMemory &memory) {
    const FrameLayout &layout = layout_of(kind, memory.isa());
    if (!is_known(kind, memory.isa()) || layout.siginfo == 0)
        return std::nullopt;
    // int si_signo, si_errno, si_code, then the union (asm-generic/siginfo.h)
    const std::uint64_t at = stack_pointer + layout.siginfo;
    const auto number = memory.number(at, 4), code = memory.number(at + 8, 4);
    const auto address = memory.word(at + layout.siginfo_address);
    if (!number || !code || !address)
        return std::nullopt;
    return FrameSiginfo{static_cast<int>(static_cast<std::uint32_t>(*number)),
                        static_cast<int>(static_cast<std::uint32_t>(*code)), *address};
}

std::optional<std::uint64_t> page_fault_of_sigframe(std::uint64_t stack_pointer, Sigreturn kind,
                                                    ProcessMemory &memory) {
    constexpr std::uint64_t page_fault = 14; // X86_TRAP_PF
    if (!is_known(kind, memory.isa()))
        return std::nullopt;
    const FrameLayout &layout = layout_of(kind, memory.isa());
    const std::uint64_t context = stack_pointer + layout.sigcontext;
    return memory.word(context + layout.trapno) == page_fault ? memory.word(context + layout.cr2) : std::nullopt;
}

} // namespace incident::postmortem
