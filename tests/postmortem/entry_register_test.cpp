#include "postmortem/unwind/entry_register.h"

#include <gmock/gmock.h>

#include <cstring>

namespace incident::postmortem {
namespace {

constexpr std::uint64_t entry = 0x1000;

class CodeMemory : public ProcessMemory {
public:
    explicit CodeMemory(std::string bytes) : bytes_(std::move(bytes)) {}
    std::size_t read(std::uint64_t address, std::span<char> into) override {
        if (address < entry || address >= entry + bytes_.size())
            return 0;
        const std::size_t count = std::min<std::size_t>(into.size(), entry + bytes_.size() - address);
        std::memcpy(into.data(), bytes_.data() + (address - entry), count);
        return count;
    }
    std::uint64_t end() const { return entry + bytes_.size(); }

private:
    std::string bytes_;
};

bool untouched(const std::string &bytes, std::uint64_t ip, std::string_view reg = "rdi") {
    CodeMemory code(bytes);
    return untouched_since_entry(reg, entry, code.end(), entry + ip, code);
}

const std::string load = "\x8b\x07";               // mov (%rdi),%eax
const std::string set = "\x31\xff";                // xor %edi,%edi
const std::string other{"\x31\xf6", 2};            // xor %esi,%esi
const std::string call{"\xe8\x00\x00\x00\x00", 5}; // call next
const std::string back_to_entry{"\xeb\xfa", 2};    // jmp -6
const std::string indirect{"\xff\xe0", 2};         // jmp *%rax

TEST(EntryRegister, WhatNothingWritesIsUntouched) {
    EXPECT_TRUE(untouched(load, 0));
    EXPECT_TRUE(untouched(other + load, 2));
    EXPECT_FALSE(untouched(other + load, 2, "rsi"));
}

TEST(EntryRegister, AWriteOrACallBeforeItTouches) {
    EXPECT_FALSE(untouched(set + load, 2));
    EXPECT_FALSE(untouched(call + load, 5));
}

TEST(EntryRegister, AWriteBehindItCountsWhereAJumpLeadsBack) {
    EXPECT_TRUE(untouched(load + set, 0));
    EXPECT_FALSE(untouched(load + set + back_to_entry, 0));
    EXPECT_TRUE(untouched(load + other + back_to_entry, 0));
    EXPECT_FALSE(untouched(load + set + indirect, 0)) << "nobody knows where that leads";
}

TEST(EntryRegister, ThePartThatIsKeptElsewhereMayComeBack) {
    const std::string function = "\x74\x03" + load + "\xc3"; // je to what follows the function
    const auto untouched_by = [&](const std::string &elsewhere) {
        CodeMemory code(function + elsewhere);
        return untouched_since_entry("rdi", entry, entry + function.size(), entry + 2, code);
    };
    EXPECT_FALSE(untouched_by(set + "\xeb\xf9")) << "it sets the register and goes on in the middle";
    EXPECT_FALSE(untouched_by(call + "\x74\xf6" + "\xc3"));
    EXPECT_TRUE(untouched_by(set + "\xc3")) << "another function, called in its place";
    EXPECT_TRUE(untouched_by(set + "\xff\x25" + std::string(4, '\0'))) << "and one of another library";
    EXPECT_TRUE(untouched_by(set + "\xeb\xf7")) << "which calls this one anew";
    EXPECT_FALSE(untouched_by(set)) << "what follows cannot be read";
}

TEST(EntryRegister, WhatCannotBeReadIsNotClaimed) {
    EXPECT_FALSE(untouched("\x06" + load, 1)) << "no instruction";
    EXPECT_FALSE(untouched(load, 2)) << "outside of the function";
    EXPECT_FALSE(untouched(load, 0, "rax"));
    CodeMemory code(load);
    EXPECT_FALSE(untouched_since_entry("rdi", entry, code.end() + 1, entry, code)) << "not all of it is there";
}

TEST(EntryRegister, ArgumentsAreCountedAsThePsAbiDoes) {
    EXPECT_EQ(argument_number("rdi"), 1u);
    EXPECT_EQ(argument_number("r9"), 6u);
    EXPECT_EQ(argument_number("rax"), 0u);
}

} // namespace
} // namespace incident::postmortem
