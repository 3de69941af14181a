#include "capture/collect/collect.h"
#include "capture/os/unique_fd.h"

#include <gtest/gtest.h>

#include <elf.h>
#include <fcntl.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

namespace incident::capture {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <typename T> void put(Bytes &bytes, std::size_t at, const T &value) {
    if (bytes.size() < at + sizeof value)
        bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

Bytes note(std::uint32_t type, const std::string &name, const Bytes &description, std::size_t align = 4) {
    Bytes bytes;
    put(bytes, 0, Elf64_Nhdr{static_cast<Elf64_Word>(name.size()), static_cast<Elf64_Word>(description.size()), type});
    bytes.insert(bytes.end(), name.begin(), name.end());
    bytes.resize((bytes.size() + align - 1) / align * align);
    bytes.insert(bytes.end(), description.begin(), description.end());
    bytes.resize((bytes.size() + align - 1) / align * align);
    return bytes;
}

const Bytes ID{0xde, 0xad, 0xbe, 0xef, 0x01};
const std::string GNU("GNU\0", 4);

template <typename Ehdr, typename Phdr>
Bytes elf(unsigned char file_class, const std::vector<Bytes> &segments, std::uint64_t align = 4) {
    Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = file_class;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Phdr);
    header.e_phnum = static_cast<std::uint16_t>(segments.size());
    Bytes bytes;
    put(bytes, 0, header);
    std::size_t at = sizeof header + segments.size() * sizeof(Phdr);
    for (std::size_t i = 0; i < segments.size(); ++i) {
        Phdr segment{};
        segment.p_type = PT_NOTE;
        segment.p_offset = static_cast<decltype(segment.p_offset)>(at);
        segment.p_filesz = static_cast<decltype(segment.p_filesz)>(segments[i].size());
        segment.p_align = static_cast<decltype(segment.p_align)>(align);
        put(bytes, sizeof header + i * sizeof segment, segment);
        bytes.resize(at);
        bytes.insert(bytes.end(), segments[i].begin(), segments[i].end());
        at = bytes.size();
    }
    return bytes;
}
Bytes elf64(const std::vector<Bytes> &segments, std::uint64_t align = 4) {
    return elf<Elf64_Ehdr, Elf64_Phdr>(ELFCLASS64, segments, align);
}
std::string of(const Bytes &bytes) {
    return build_id_of_head(bytes.data(), bytes.size());
}

std::string joined(std::initializer_list<Bytes> notes, std::uint64_t align = 4) {
    Bytes all;
    for (const Bytes &each : notes)
        all.insert(all.end(), each.begin(), each.end());
    return of(elf64({all}, align));
}

TEST(BuildId, IsFoundInBothClassesBehindOtherNotes) {
    EXPECT_EQ(of(elf64({note(NT_GNU_BUILD_ID, GNU, ID)})), "deadbeef01");
    EXPECT_EQ((of(elf<Elf32_Ehdr, Elf32_Phdr>(ELFCLASS32, {note(NT_GNU_BUILD_ID, GNU, ID)}))), "deadbeef01");
    EXPECT_EQ(joined({note(1, GNU, Bytes(16)), note(3, "abc", ID), note(3, GNU, ID)}), "deadbeef01");
    EXPECT_EQ(of(elf64({note(5, GNU, Bytes(3)), note(NT_GNU_BUILD_ID, GNU, ID)})), "deadbeef01") << "second segment";
    EXPECT_EQ(joined({note(5, GNU, Bytes(13), 8), note(3, GNU, ID, 8)}, 8), "deadbeef01") << "padded to 8";
}

TEST(BuildId, IsNothingWhereThereIsNone) {
    EXPECT_EQ(of({}), "");
    EXPECT_EQ(of(Bytes(4096)), "");
    EXPECT_EQ(of(elf64({})), "");
    EXPECT_EQ(joined({note(3, GNU, {})}), "");
    EXPECT_EQ(joined({note(3, GNU, Bytes(65))}), "") << "longer than any";
    Bytes big_endian = elf64({note(3, GNU, ID)});
    big_endian[EI_DATA] = ELFDATA2MSB;
    EXPECT_EQ(of(big_endian), "");
}

TEST(BuildId, EveryTruncationIsSafe) {
    const Bytes whole = elf64({note(1, GNU, Bytes(16)), note(NT_GNU_BUILD_ID, GNU, ID)});
    for (std::size_t length = 0; length < whole.size() - 3; ++length) { // 3 bytes of padding
        const Bytes cut(whole.begin(),
                        whole.begin() + static_cast<std::ptrdiff_t>(length)); // so that ASan sees the end
        EXPECT_EQ(of(cut), "") << length;
    }
}

TEST(BuildId, HostileLengthsAreSafe) {
    const auto with = [](auto change) {
        Bytes bytes = elf64({note(NT_GNU_BUILD_ID, GNU, ID)});
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        std::memcpy(&header, bytes.data(), sizeof header);
        std::memcpy(&segment, bytes.data() + sizeof header, sizeof segment);
        change(header, segment);
        put(bytes, 0, header);
        put(bytes, sizeof header, segment);
        return of(bytes);
    };
    EXPECT_EQ(with([](auto &h, auto &) { h.e_phoff = ~0ull; }), "");
    EXPECT_EQ(with([](auto &h, auto &) { h.e_phoff = ~0ull - 8; }), "");
    EXPECT_EQ(with([](auto &h, auto &) { h.e_phentsize = 1; }), "");
    EXPECT_EQ(with([](auto &h, auto &) { h.e_phnum = 65535; }), "deadbeef01");
    EXPECT_EQ(with([](auto &, auto &s) { s.p_offset = ~0ull; }), "");
    EXPECT_EQ(with([](auto &, auto &s) { s.p_filesz = ~0ull; }), "");
    EXPECT_EQ(with([](auto &, auto &s) { s.p_align = ~0ull; }), "deadbeef01") << "taken for 4";
    for (const std::uint32_t length : {~0u, ~0u - 3, 0x7fffffffu, 1000u}) {
        Bytes bad = note(NT_GNU_BUILD_ID, GNU, ID);
        put(bad, 0, length);
        EXPECT_EQ(of(elf64({bad})), "");
        bad = note(NT_GNU_BUILD_ID, GNU, ID);
        put(bad, 4, length);
        EXPECT_EQ(of(elf64({bad})), "");
    }
}

TEST(BuildId, AnyBytesAreSafe) {
    std::mt19937 random(1);
    const Bytes good = elf64({note(1, GNU, Bytes(16)), note(NT_GNU_BUILD_ID, GNU, ID)});
    for (int i = 0; i < 50'000; ++i) {
        Bytes bytes = good;
        for (int changes = 0; changes < 4; ++changes)
            bytes[EI_NIDENT + random() % (bytes.size() - EI_NIDENT)] = static_cast<std::uint8_t>(random());
        (void)of(bytes);
    }
}

TEST(BuildId, OfThisProgram) {
    const UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    const std::string from_file = build_id_of_file(self.get());
    EXPECT_EQ(from_file.size(), 40u) << "built with --build-id=sha1, as gcc does by default";
    Bytes head(4096);
    ASSERT_EQ(::pread(self.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
    EXPECT_EQ(build_id_of_head(head.data(), head.size()), from_file);

    EXPECT_EQ(build_id_of_file(-1), "");
    const UniqueFd device(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(build_id_of_file(device.get()), "");
}

} // namespace
} // namespace incident::capture
