// What is kept of real programs and of broken ones.
#include "capture/modules/module_copy.h"
#include "capture/modules/kept_name.h"
#include "capture/os/dir_at.h"
#include "capture/os/unique_fd.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>

namespace incident::capture {
namespace {

constexpr std::uint64_t most = 64u << 20;

UniqueFd own_program() {
    return UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
}

UniqueFd file_of_bytes(std::string_view bytes) {
    UniqueFd file(::memfd_create("module", MFD_CLOEXEC));
    EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return file;
}

std::string content(int fd) {
    struct stat status {};
    EXPECT_EQ(::fstat(fd, &status), 0);
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    EXPECT_TRUE(read_all_at(fd, 0, bytes));
    return bytes;
}

// As the store writes it.
std::string as_file(const ModuleCopy &copy) {
    std::string bytes(copy.pieces.back().offset + copy.pieces.back().bytes.size(), '\0');
    for (const auto &piece : copy.pieces)
        bytes.replace(piece.offset, piece.bytes.size(), piece.bytes);
    return bytes;
}

template <typename Function> void for_each_section(const std::string &file, Function call) {
    Elf64_Ehdr header;
    std::memcpy(&header, file.data(), sizeof header);
    Elf64_Shdr names;
    std::memcpy(&names, file.data() + header.e_shoff + header.e_shstrndx * sizeof names, sizeof names);
    for (unsigned i = 1; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        std::memcpy(&section, file.data() + header.e_shoff + i * sizeof section, sizeof section);
        call(std::string(file.data() + names.sh_offset + section.sh_name), section);
    }
}

TEST(ModuleCopyOf, AProgramHasWhatUnwindingNeedsAndNoCode) {
    const UniqueFd program = own_program();
    const auto copy = copy_module(program.get(), most);
    ASSERT_TRUE(copy) << copy.error().what;
    const std::string whole = content(program.get()), kept = as_file(*copy);
    EXPECT_LT(copy->bytes(), whole.size() / 2);
    std::set<std::string> there, missing;
    for_each_section(kept, [&](const std::string &name, const Elf64_Shdr &section) {
        if (section.sh_type == SHT_NOBITS) {
            missing.insert(name);
            return;
        }
        there.insert(name);
        EXPECT_EQ(kept.substr(section.sh_offset, section.sh_size), whole.substr(section.sh_offset, section.sh_size))
            << name;
    });
    for (const char *name : {".eh_frame", ".eh_frame_hdr", ".dynsym", ".dynstr", ".dynamic", ".symtab", ".strtab",
                             ".note.gnu.build-id", ".interp"})
        EXPECT_TRUE(there.contains(name) || std::string(name) == ".interp") << name;
    for (const char *name : {".text", ".rodata", ".data", ".bss", ".gcc_except_table"})
        EXPECT_TRUE(missing.contains(name)) << name;
    EXPECT_EQ(copy->name, kept_name(copy->build_id, copy->name.substr(copy->name.find('.') + 1)));
    EXPECT_TRUE(is_kept_name(copy->name));
}

TEST(ModuleCopyOf, TheSameFileHasTheSameName) {
    const UniqueFd program = own_program();
    const auto one = copy_module(program.get(), most), other = copy_module(program.get(), most);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->name, other->name);
}

// Else whoever gives his program another's build-id would have it taken for that one.
TEST(ModuleCopyOf, AnotherFileOfThatBuildIdHasAnotherName) {
    const UniqueFd program = own_program();
    std::string bytes = content(program.get());
    for_each_section(std::string(bytes), [&](const std::string &name, const Elf64_Shdr &section) {
        if (name == ".strtab")
            bytes[section.sh_offset + 1] ^= 1;
    });
    const auto one = copy_module(program.get(), most), other = copy_module(file_of_bytes(bytes).get(), most);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->build_id, other->build_id);
    EXPECT_NE(one->name, other->name);
}

TEST(ModuleCopyOf, AFileWithoutSectionHeadersHasItsUnwindTables) {
    const UniqueFd program = own_program();
    std::string bytes = content(program.get());
    std::uint64_t eh_frame = 0, length = 0;
    for_each_section(bytes, [&](const std::string &name, const Elf64_Shdr &section) {
        if (name == ".eh_frame")
            eh_frame = section.sh_offset, length = section.sh_size;
    });
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.e_shoff = 0;
    header.e_shnum = header.e_shstrndx = 0;
    std::memcpy(bytes.data(), &header, sizeof header);
    const auto copy = copy_module(file_of_bytes(bytes).get(), most);
    ASSERT_TRUE(copy) << copy.error().what;
    const std::string kept = as_file(*copy);
    ASSERT_GE(kept.size(), eh_frame + length);
    EXPECT_EQ(kept.substr(eh_frame, length), bytes.substr(eh_frame, length));
}

TEST(ModuleCopyOf, AFileThatIsCutShortIsKeptAsFarAsItGoes) {
    const UniqueFd program = own_program();
    const std::string bytes = content(program.get());
    for (const std::size_t length : {100uz, 5000uz, bytes.size() / 2, bytes.size() - 1})
        if (const auto copy = copy_module(file_of_bytes(bytes.substr(0, length)).get(), most)) {
            EXPECT_LE(as_file(*copy).size(), length);
        }
}

TEST(ModuleCopyOf, OfAFileThatNeedsMoreTheFullSymbolTableGoesFirst) {
    const UniqueFd program = own_program();
    const auto whole = copy_module(program.get(), most);
    ASSERT_TRUE(whole);
    const auto less = copy_module(program.get(), whole->bytes() - 1);
    ASSERT_TRUE(less) << less.error().what;
    std::set<std::string> there;
    for_each_section(as_file(*less), [&](const std::string &name, const Elf64_Shdr &section) {
        if (section.sh_type != SHT_NOBITS)
            there.insert(name);
    });
    for (const char *name : {".eh_frame", ".dynsym", ".dynstr", ".shstrtab"})
        EXPECT_TRUE(there.contains(name)) << name;
    EXPECT_FALSE(there.contains(".symtab"));
    EXPECT_FALSE(there.contains(".strtab"));
}

TEST(ModuleCopyOf, MoreThanTheMostIsAnError) {
    const UniqueFd program = own_program();
    const auto copy = copy_module(program.get(), 10'000);
    ASSERT_FALSE(copy);
    EXPECT_NE(copy.error().what.find("the most is 10000"), std::string::npos) << copy.error().what;
}

TEST(ModuleCopyOf, WhatIsNoElfIsAnError) {
    EXPECT_FALSE(copy_module(file_of_bytes("#!/bin/sh\n").get(), most));
    EXPECT_FALSE(copy_module(file_of_bytes("").get(), most));
    EXPECT_FALSE(copy_module(UniqueFd(::open("/dev/zero", O_RDONLY | O_CLOEXEC)).get(), most));
}

TEST(KeptName, IsNothingElse) {
    const std::string hash(64, 'a');
    for (const std::string &good : {"none." + hash, "0123abcd." + hash})
        EXPECT_TRUE(is_kept_name(good)) << good;
    for (const std::string &bad :
         {std::string(), hash, "." + hash, "../x." + hash, "NONE." + hash, "a/b." + hash, "none." + hash + "a",
          "none." + hash.substr(1), "none." + hash.substr(1) + "/", "none." + hash + ".part",
          std::string(129, 'a') + "." + hash, std::string("no\0ne.", 6) + hash})
        EXPECT_FALSE(is_kept_name(bad)) << bad;
    EXPECT_EQ(build_id_in("0123abcd." + hash), "0123abcd");
    EXPECT_EQ(build_id_in("none." + hash), "");
}

} // namespace
} // namespace incident::capture
