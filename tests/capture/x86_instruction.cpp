#include "capture/decode/x86_instruction.h"

#include <gtest/gtest.h>

#include <vector>

namespace incident::capture {
namespace {

std::optional<std::int64_t> distance(const std::vector<std::uint8_t> &code) {
    return decode_x86(code).value().distance();
}

bool changes_course(const std::vector<std::uint8_t> &code) {
    return decode_x86(code).value().changes_course();
}

bool writes(ZydisRegister reg, const std::vector<std::uint8_t> &code) {
    return decode_x86(code).value().writes_any_of({&reg, 1});
}

TEST(X86Instruction, LengthOfWhatCompilersEmit) {
    const std::pair<std::vector<std::uint8_t>, std::size_t> cases[] = {
        {{0x55}, 1},                                         // push rbp
        {{0xf3, 0x0f, 0x1e, 0xfa}, 4},                       // endbr64
        {{0x48, 0x89, 0xe5}, 3},                             // mov rsp,rbp
        {{0x48, 0x81, 0xec, 0, 1, 0, 0}, 7},                 // sub $0x100,rsp
        {{0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, 9},  // mov fs:0x28,rax
        {{0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, 10},          // movabs
        {{0x66, 0x81, 0x3f, 1, 2}, 5},                       // cmpw
        {{0xf7, 0x05, 0, 0, 0, 0, 1, 2, 3, 4}, 10},          // testl $,rip
        {{0xf7, 0xd8}, 2},                                   // neg
        {{0x0f, 0x84, 0, 0, 0, 0}, 6},                       // je
        {{0xc5, 0xf8, 0x77}, 3},                             // vzeroupper
        {{0xc4, 0xe3, 0x7d, 0x19, 0xc1, 0x01}, 6},           // vextractf128
        {{0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x06}, 6},           // vmovdqu64
        {{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, 10}, // nopw cs:
        {{0x06}, 0},                                         // not in 64-bit mode
        {{0xe8, 0, 0}, 0},                                   // cut
        {{0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}, 0},
    };
    for (const auto &[bytes, length] : cases) {
        const auto decoded = decode_x86(bytes);
        EXPECT_EQ(decoded ? decoded->length : 0u, length) << std::hex << int(bytes[0]);
    }
    EXPECT_FALSE(decode_x86(std::vector<std::uint8_t>{}));
}

TEST(X86Instruction, IsAnotherIn32BitCode) {
    const std::vector<std::uint8_t> inc{0x40}, far_call{0x9a, 1, 2, 3, 4, 0x33, 0};
    EXPECT_FALSE(decode_x86(inc)) << "a prefix without an instruction";
    ASSERT_TRUE(decode_x86(inc, X86Mode::bits32));
    EXPECT_EQ(decode_x86(inc, X86Mode::bits32)->mnemonic, ZYDIS_MNEMONIC_INC);
    EXPECT_FALSE(decode_x86(far_call));
    EXPECT_TRUE(decode_x86(far_call, X86Mode::bits32));
}

TEST(X86Instruction, DistanceOfJumpsAndCallsToAFixedPlace) {
    EXPECT_EQ(distance({0xeb, 0xfe}), -2);                          // jmp .
    EXPECT_EQ(distance({0xe9, 0, 1, 0, 0}), 256);                   // jmp
    EXPECT_EQ(distance({0xf2, 0xe9, 0, 1, 0, 0}), 256);             // bnd jmp
    EXPECT_EQ(distance({0x0f, 0x84, 0xf0, 0xff, 0xff, 0xff}), -16); // je
    EXPECT_EQ(distance({0xe8, 1, 0, 0, 0}), 1);                     // call
    EXPECT_EQ(distance({0xff, 0xe0}), std::nullopt);                // jmp *%rax
    EXPECT_EQ(distance({0xff, 0x25, 0, 0, 0, 0}), std::nullopt);    // jmp *0(%rip)
    EXPECT_EQ(distance({0x48, 0x83, 0xc0, 0x01}), std::nullopt);    // add $1,%rax
    EXPECT_EQ(distance({0x90}), std::nullopt);                      // nop
}

TEST(X86Instruction, WhatMayBeFollowedByAnotherThanTheNext) {
    EXPECT_TRUE(changes_course({0xc3}));                    // ret
    EXPECT_TRUE(changes_course({0xf3, 0xc3}));              // rep ret
    EXPECT_TRUE(changes_course({0xeb, 0x00}));              // jmp
    EXPECT_TRUE(changes_course({0x74, 0x00}));              // je
    EXPECT_TRUE(changes_course({0xff, 0xd0}));              // call *%rax
    EXPECT_TRUE(changes_course({0x0f, 0x05}));              // syscall
    EXPECT_TRUE(changes_course({0xcc}));                    // int3
    EXPECT_FALSE(changes_course({0x0f, 0x1f, 0x00}));       // nopl
    EXPECT_FALSE(changes_course({0x48, 0x0f, 0x44, 0xc1})); // cmove
}

TEST(X86Instruction, WrittenRegistersWithTheirParts) {
    EXPECT_TRUE(writes(ZYDIS_REGISTER_RDI, {0x48, 0x89, 0xc7}));  // mov %rax,%rdi
    EXPECT_TRUE(writes(ZYDIS_REGISTER_RDI, {0x40, 0xb7, 0x01}));  // mov $1,%dil
    EXPECT_TRUE(writes(ZYDIS_REGISTER_RSP, {0x50}));              // push %rax
    EXPECT_FALSE(writes(ZYDIS_REGISTER_RDI, {0x48, 0x89, 0xf8})); // mov %rdi,%rax
    EXPECT_FALSE(writes(ZYDIS_REGISTER_RDI, {0x48, 0x89, 0x07})); // mov %rax,(%rdi)
}

} // namespace
} // namespace incident::capture
