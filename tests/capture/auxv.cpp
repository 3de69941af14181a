#include "capture/os/auxv.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace incident::capture {

namespace {

template <typename Word> std::string bytes_of(const std::vector<Word> &words) {
    return {reinterpret_cast<const char *>(words.data()), words.size() * sizeof(Word)};
}

// As the kernel starts an i386 program: AT_SYSINFO, AT_SYSINFO_EHDR … (32 and 33); without a vdso AT_MINSIGSTKSZ first.
const std::string narrow =
    bytes_of<std::uint32_t>({32, 0xf7fc4550, AT_SYSINFO_EHDR, 0xf7fc4000, AT_PHDR, 0x8048034, AT_NULL, 0, AT_BASE, 7});
const std::string narrow_without_vdso = bytes_of<std::uint32_t>({51, 2000, AT_PHDR, 0x8048034, AT_NULL, 0});
const std::string wide = bytes_of<std::uint64_t>({AT_SYSINFO_EHDR, 0x7ffff7fc1000, AT_PHDR, 0x400040, AT_NULL, 0});

} // namespace

TEST(Auxv, IsAsWideAsTheProgramsWords) {
    EXPECT_TRUE(is_narrow_auxv(narrow));
    EXPECT_TRUE(is_narrow_auxv(narrow_without_vdso));
    EXPECT_FALSE(is_narrow_auxv(wide));
    EXPECT_FALSE(is_narrow_auxv(""));
    EXPECT_FALSE(is_narrow_auxv(std::string(384, '\0')));
    std::ifstream file("/proc/self/auxv", std::ios::binary);
    const std::string own(std::istreambuf_iterator<char>(file), {});
    EXPECT_FALSE(is_narrow_auxv(own));
    EXPECT_EQ(auxv_value(own, AT_PAGESZ), 4096u);
}

TEST(Auxv, IsReadUpToItsEnd) {
    EXPECT_EQ(auxv_value(narrow, AT_SYSINFO_EHDR), 0xf7fc4000u);
    EXPECT_EQ(auxv_value(narrow, AT_PHDR), 0x8048034u);
    EXPECT_EQ(auxv_value(narrow, AT_BASE), std::nullopt) << "behind AT_NULL";
    EXPECT_EQ(auxv_value(wide, AT_PHDR), 0x400040u);
    EXPECT_EQ(auxv_value(wide.substr(0, 20), AT_PHDR), std::nullopt) << "cut within a pair";
}

TEST(Auxv, TellsWhatAProgramIsOf) {
    EXPECT_EQ(abi_name(wide, false, true), "x86-64");
    EXPECT_EQ(abi_name(wide, true, false), "x86-64") << "it has gone over to 32-bit code";
    EXPECT_EQ(abi_name(narrow, true, false), "i386");
    EXPECT_EQ(abi_name(narrow, true, true), "i386");
    EXPECT_EQ(abi_name(narrow, false, true), "x32");
    EXPECT_EQ(abi_name(narrow, false, false), "i386");
    EXPECT_EQ(abi_name(std::string(384, '\0'), true, false), "i386");
    EXPECT_EQ(abi_name("", false, true), "x86-64");
}

} // namespace incident::capture
