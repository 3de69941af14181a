// What differs in the unwinder for 32-bit programs, each by itself: for kernels that do not execute such.
#include "postmortem/unwind/expression.h"
#include "postmortem/unwind/machine_code.h"
#include "postmortem/unwind/sigframe.h"

#include <dwarf.h>
#include <gmock/gmock.h>

#include <csignal>
#include <map>

namespace incident::postmortem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

class NarrowMemory : public ProcessMemory {
public:
    NarrowMemory() : ProcessMemory(Isa::i386) {}
    void put(std::uint64_t address, std::string_view bytes) {
        for (const char byte : bytes)
            bytes_[address++] = byte;
    }
    void put_word(std::uint64_t address, std::uint32_t value) {
        for (unsigned i = 0; i < 4; ++i)
            bytes_[address + i] = static_cast<char>(value >> 8 * i);
    }
    std::size_t read(std::uint64_t address, std::span<char> into) override {
        std::size_t count = 0;
        for (; count < into.size() && bytes_.contains(address + count); ++count)
            into[count] = bytes_[address + count];
        return count;
    }

private:
    std::map<std::uint64_t, char> bytes_;
};

class UnwindI386 : public testing::Test {
protected:
    Location compute(const std::vector<Dwarf_Op> &ops) {
        return postmortem::compute(ops, {registers, memory, LoadBias(0x1000), 0xffffd000, {}});
    }
    void code(std::string_view bytes) { memory.put(0x1000, bytes); }
    Instruction decoded(std::string_view bytes, user_regs_struct at) {
        memory = {};
        code(bytes);
        at.rip = 0x1000;
        return instruction_at(at, memory).value_or(Instruction{});
    }

    NarrowMemory memory;
    Registers registers{};
};

TEST_F(UnwindI386, RegistersGoByTheirOwnNumbers) {
    // psABI for i386, table 2.14: eax ecx edx ebx esp ebp esi edi, and the return address
    const std::string_view names[] = {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip"};
    for (unsigned number = 0; number < std::size(names); ++number) {
        const unsigned place = place_of(number, Isa::i386);
        EXPECT_EQ(register_name(place, Isa::i386), names[number]);
        EXPECT_THAT(number_of(place, Isa::i386), Optional(static_cast<int>(number)));
    }
    EXPECT_EQ(place_of(9, Isa::i386), no_place); // eflags
    EXPECT_EQ(number_of(8, Isa::i386), std::nullopt) << "it has no r8";
    EXPECT_EQ(place_of(8, Isa::x86_64), 8u);
    EXPECT_TRUE(is_preserved(dwarf_rsi, Isa::i386));
    EXPECT_FALSE(is_preserved(dwarf_rsi, Isa::x86_64));
    EXPECT_FALSE(is_preserved(12, Isa::i386));
    user_regs_struct raw{};
    raw.rsp = 0xdeadbeefffffd000;
    raw.r8 = 7;
    EXPECT_THAT(registers_of(raw, Isa::i386)[dwarf_rsp], Optional(0xffffd000u));
    EXPECT_EQ(registers_of(raw, Isa::i386)[8], std::nullopt);
}

TEST_F(UnwindI386, ExpressionsHave32Bits) {
    registers[dwarf_rbp] = 0xffffcfe8; // DWARF's 5
    registers[dwarf_rsp] = 0x10;       // … and 4
    memory.put_word(0xffffcfe4, 0x8049000);
    EXPECT_EQ(compute({{DW_OP_breg5, static_cast<Dwarf_Word>(-4)}, {DW_OP_deref}}).value, 0x8049000u);
    EXPECT_EQ(compute({{DW_OP_breg5, 0x8000}}).value, 0x4fe8u) << "it wraps";
    EXPECT_EQ(compute({{DW_OP_breg4, static_cast<Dwarf_Word>(-32)}, {DW_OP_lit0}, {DW_OP_lt}}).value, 1u) << "signed";
    EXPECT_EQ(compute({{DW_OP_lit1}, {DW_OP_not}}).value, 0xfffffffeu);
    EXPECT_EQ(compute({{DW_OP_consts, ~0ull}, {DW_OP_lit4}, {DW_OP_shra}}).value, 0xffffffffu);
    EXPECT_EQ(compute({{DW_OP_lit1}, {DW_OP_constu, 40}, {DW_OP_shl}}).value, 0u);
    EXPECT_THAT(compute({{DW_OP_breg3, 0}}).why, HasSubstr("ebx is not known"));
    EXPECT_THAT(compute({{DW_OP_breg11, 0}}).why, HasSubstr("register 11 is not captured"));
}

TEST_F(UnwindI386, InstructionsAre32BitOnes) {
    user_regs_struct at{};
    at.rsp = 0xffffd000;
    at.rax = 0xfffffff8;
    at.gs_base = 0xf7d00000;
    EXPECT_EQ(decoded("\x55", at).memory->address, 0xffffcffcu); // push %ebp
    const Instruction load = decoded({"\x8b\x40\x10", 3}, at);   // mov 0x10(%eax),%eax
    EXPECT_EQ(load.text, "mov 0x10(%eax),%eax");
    EXPECT_EQ(load.memory->address, 8u) << "it wraps";
    EXPECT_EQ(decoded({"\xa1\x34\x12\x04\x08", 5}, at).memory->address, 0x8041234u); // mov 0x8041234,%eax
    const std::string_view local("\x65\xa1\x14\0\0\0", 6);                           // mov %gs:0x14,%eax
    EXPECT_EQ(decoded(local, at).memory->address, 0xf7d00014u);
    at.gs_base = 0;
    EXPECT_FALSE(decoded(local, at).memory) << "where its thread's memory lies was not captured";
    EXPECT_EQ(decoded({"\x40", 1}, at).text, "inc %eax") << "a prefix in 64-bit code";
}

TEST_F(UnwindI386, FunctionsSetUpTheirOwnFramePointer) {
    code({"\xf3\x0f\x1e\xfb\x55\x89\xe5\x83\xec\x10", 10}); // endbr32; push %ebp; mov %esp,%ebp; sub
    const Prologue prologue = prologue_at(0x1000, memory);
    EXPECT_TRUE(prologue.frame_pointer);
    EXPECT_EQ(prologue.pushed, 0x1005u);
    EXPECT_EQ(prologue.moved, 0x1007u);
}

TEST_F(UnwindI386, TheVdsoPopsWhatItHasPushed) {
    code({"\x5d\x5a\x59\xc3", 4}); // as behind __kernel_vsyscall's int $0x80: pop %ebp; pop %edx; pop %ecx; ret
    EXPECT_THAT(pops_at(0x1000, memory), Optional(ElementsAre(dwarf_rbp, dwarf_rdx, dwarf_rcx)));
    EXPECT_THAT(pops_at(0x1003, memory), Optional(ElementsAre()));
    code({"\x5d\xc2\x08\0", 4}); // ret $8
    EXPECT_EQ(pops_at(0x1000, memory), std::nullopt);
    code({"\x5d\x5c\xc3", 3}); // pop %esp: another stack
    EXPECT_EQ(pops_at(0x1000, memory), std::nullopt);
    code({"\x5d\x90\xc3", 3});
    EXPECT_EQ(pops_at(0x1000, memory), std::nullopt);
    code("\x5d\x5d\x5d\x5d\x5d\x5d\x5d\x5d\x5d\xc3");
    EXPECT_EQ(pops_at(0x1000, memory), std::nullopt);
    EXPECT_EQ(pops_at(0x2000, memory), std::nullopt);
}

constexpr std::uint64_t stack = 0xffffc000;

TEST_F(UnwindI386, TheFrameOfAHandlerWithoutSiginfo) {
    code({"\x58\xb8\x77\0\0\0\xcd\x80", 8}); // pop %eax; mov $119,%eax; int $0x80
    ASSERT_EQ(sigreturn_at(0x1000, memory), Sigreturn::old);
    memory.put_word(stack, SIGUSR1);
    const std::uint64_t context = stack + 4; // struct sigcontext_32
    for (std::uint64_t at = 0; at < 88; at += 4)
        memory.put_word(context + at, static_cast<std::uint32_t>(0x100 + at));
    memory.put_word(context + 48, 14); // X86_TRAP_PF
    std::uint64_t unread = 0;
    const auto found = registers_of_sigframe(stack, Sigreturn::old, memory, unread);
    ASSERT_TRUE(found);
    EXPECT_THAT((*found)[dwarf_rdi], Optional(0x100u + 16));
    EXPECT_THAT((*found)[dwarf_rsp], Optional(0x100u + 28));
    EXPECT_THAT((*found)[dwarf_rax], Optional(0x100u + 44));
    EXPECT_THAT((*found)[dwarf_rip], Optional(0x100u + 56));
    EXPECT_EQ((*found)[8], std::nullopt);
    EXPECT_TRUE(registers_of_sigframe_whole(stack, Sigreturn::old, memory));
    EXPECT_THAT(page_fault_of_sigframe(stack, Sigreturn::old, memory), Optional(0x100u + 84));
    EXPECT_FALSE(siginfo_of_sigframe(stack, Sigreturn::old, memory)) << "it has none";
    EXPECT_FALSE(registers_of_sigframe(stack, Sigreturn::none, memory, unread)) << "which frame it is is not known";
    EXPECT_FALSE(page_fault_of_sigframe(stack, Sigreturn::none, memory));
}

TEST_F(UnwindI386, TheFrameOfAHandlerWithSiginfo) {
    code({"\xb8\xad\0\0\0\xcd\x80", 7}); // mov $173,%eax; int $0x80
    ASSERT_EQ(sigreturn_at(0x1000, memory), Sigreturn::rt);
    const std::uint64_t info = stack + 12, context = info + 128 + 20; // behind the ucontext's flags, link and stack
    memory.put_word(info, SIGSEGV);
    memory.put_word(info + 8, SEGV_MAPERR);
    memory.put_word(info + 12, 0x1d0);
    std::uint64_t unread = 0;
    EXPECT_FALSE(registers_of_sigframe(stack, Sigreturn::rt, memory, unread));
    EXPECT_EQ(unread, context + 56);
    memory.put_word(context + 56, 0x8049018);
    const auto found = registers_of_sigframe(stack, Sigreturn::rt, memory, unread);
    ASSERT_TRUE(found);
    EXPECT_THAT((*found)[dwarf_rip], Optional(0x8049018u));
    EXPECT_FALSE(registers_of_sigframe_whole(stack, Sigreturn::rt, memory));
    const auto siginfo = siginfo_of_sigframe(stack, Sigreturn::rt, memory);
    ASSERT_TRUE(siginfo);
    EXPECT_EQ(siginfo->signal, SIGSEGV);
    EXPECT_EQ(siginfo->code, SEGV_MAPERR);
    EXPECT_EQ(siginfo->address, 0x1d0u);
    code({"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9}); // x86-64's
    EXPECT_EQ(sigreturn_at(0x1000, memory), Sigreturn::none);
}

} // namespace
} // namespace incident::postmortem
