// The headers of ELF files, whole and hostile.
#include "capture/os/elf_headers.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace incident::capture {
namespace {

template <typename Ehdr, typename Phdr> std::string made(unsigned char width, std::size_t headers) {
    Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = width;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_CORE;
    header.e_entry = 0x1234;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Phdr);
    header.e_phnum = static_cast<Elf64_Half>(headers);
    std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
    for (std::size_t i = 0; i < headers; ++i) {
        Phdr segment{};
        segment.p_type = PT_LOAD;
        segment.p_flags = PF_W;
        segment.p_offset = 0x1000;
        segment.p_vaddr = 0x80000000u;
        segment.p_filesz = static_cast<decltype(segment.p_filesz)>(i);
        segment.p_memsz = 0xffffffffu;
        bytes.append(reinterpret_cast<const char *>(&segment), sizeof segment);
    }
    return bytes;
}

ElfReader reader(const std::string &bytes) {
    return reader_of_head({reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size()});
}

const std::string wide = made<Elf64_Ehdr, Elf64_Phdr>(ELFCLASS64, 3);
const std::string narrow = made<Elf32_Ehdr, Elf32_Phdr>(ELFCLASS32, 3);

TEST(ElfHeaders, OfBothClassesReadTheSame) {
    for (const std::string &bytes : {wide, narrow}) {
        const auto header = read_elf_header(reader(bytes));
        ASSERT_TRUE(header) << header.error().what;
        EXPECT_EQ(header->e_type, ET_CORE);
        EXPECT_EQ(header->e_entry, 0x1234u);
        EXPECT_EQ(header->e_phnum, 3u);
        const auto segments = read_program_headers(reader(bytes), *header, header->e_phnum);
        ASSERT_EQ(segments.size(), 3u);
        EXPECT_EQ(segments[2].p_type, static_cast<Elf64_Word>(PT_LOAD));
        EXPECT_EQ(segments[2].p_flags, static_cast<Elf64_Word>(PF_W));
        EXPECT_EQ(segments[2].p_offset, 0x1000u);
        EXPECT_EQ(segments[2].p_vaddr, 0x80000000u);
        EXPECT_EQ(segments[2].p_filesz, 2u);
        EXPECT_EQ(segments[2].p_memsz, 0xffffffffu);
    }
}

TEST(ElfHeaders, NoneAreReadBeyondTheEnd) {
    for (const std::string &bytes : {wide, narrow})
        for (std::size_t length = 0; length < bytes.size(); ++length) {
            const std::string cut = bytes.substr(0, length);
            if (const auto header = read_elf_header(reader(cut))) {
                EXPECT_LT(read_program_headers(reader(cut), *header, header->e_phnum).size(), 3u) << length;
            }
        }
    auto header = *read_elf_header(reader(wide));
    EXPECT_EQ(read_program_headers(reader(wide), header, 1).size(), 1u);
    EXPECT_EQ(read_program_headers(reader(wide), header, SIZE_MAX).size(), 3u);
    header.e_phoff = ~0ull;
    EXPECT_TRUE(read_program_headers(reader(wide), header, 3).empty());
}

TEST(ElfHeaders, WhatIsNoneIsRefused) {
    const auto refused = [](std::size_t at, char value) {
        std::string bytes = wide;
        bytes[at] = value;
        return !read_elf_header(reader(bytes));
    };
    EXPECT_FALSE(refused(offsetof(Elf64_Ehdr, e_entry), 0));
    EXPECT_TRUE(refused(0, 'x'));
    EXPECT_TRUE(refused(EI_CLASS, 3));
    EXPECT_TRUE(refused(EI_DATA, ELFDATA2MSB));
    EXPECT_TRUE(refused(offsetof(Elf64_Ehdr, e_phentsize), sizeof(Elf32_Phdr)));
}

} // namespace
} // namespace incident::capture
