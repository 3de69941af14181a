#include "daemon/probe/elf_soname.h"

#include "capture/os/address.h"
#include "capture/os/dir_at.h"
#include "capture/os/elf_headers.h"
#include "capture/os/process_files.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace incident::daemon {

namespace {

constexpr std::size_t segments_max = 512;
constexpr std::size_t entries_max = 4096;      // of the dynamic section
constexpr std::uint64_t cache_max = 16u << 20; // bytes
constexpr std::uint32_t cache_libraries_max = 100'000;

std::optional<capture::FileOffset> offset_of(const std::vector<Elf64_Phdr> &segments, capture::LinkAddress address) {
    for (const auto &segment : segments)
        if (const capture::LinkAddress start(segment.p_vaddr);
            segment.p_type == PT_LOAD && address >= start && address - start < segment.p_filesz)
            return capture::FileOffset(segment.p_offset) + (address - start);
    return std::nullopt;
}

std::string string_at(int fd, capture::FileOffset offset) {
    char text[soname_max + 1];
    std::size_t length = 0;
    while (length < sizeof(text)) { // the file may end before
        const ssize_t got =
            ::pread(fd, text + length, sizeof(text) - length, static_cast<off_t>((offset + length).value));
        if (got <= 0)
            break;
        length += static_cast<std::size_t>(got);
    }
    const std::size_t end = ::strnlen(text, length);
    return end < length ? std::string(text, end) : std::string();
}

} // namespace

std::string elf_soname(int fd) {
    const auto read = capture::reader_of(fd);
    const auto header = capture::read_elf_header(read);
    if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64 ||
        header->e_phnum > segments_max)
        return {};
    const auto segments = capture::read_program_headers(read, *header, header->e_phnum);
    if (segments.size() < header->e_phnum)
        return {};
    const auto dynamic = std::ranges::find(segments, static_cast<Elf64_Word>(PT_DYNAMIC), &Elf64_Phdr::p_type);
    if (dynamic == segments.end())
        return {};
    std::vector<Elf64_Dyn> entries(std::min<std::uint64_t>(dynamic->p_filesz / sizeof(Elf64_Dyn), entries_max));
    if (!read(dynamic->p_offset, {reinterpret_cast<char *>(entries.data()), entries.size() * sizeof(Elf64_Dyn)}))
        return {};
    std::optional<std::uint64_t> name; // from the beginning of the names
    std::optional<capture::FileOffset> names;
    for (const auto &entry : entries) {
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_SONAME)
            name = entry.d_un.d_val;
        else if (entry.d_tag == DT_STRTAB)
            names = offset_of(segments, capture::LinkAddress(entry.d_un.d_ptr));
    }
    std::uint64_t at = 0;
    if (!name || !names || __builtin_add_overflow(names->value, *name, &at) ||
        at > static_cast<std::uint64_t>(INT64_MAX) / 2)
        return {};
    return string_at(fd, capture::FileOffset(at));
}

// glibc, sysdeps/generic/dl-cache.h: struct cache_file_new and its entries; offsets count from the header.
std::vector<std::string> cached_sonames(const std::string &cache) {
    struct Header {
        char magic[20]; // "glibc-ld.so.cache1.1"
        std::uint32_t libraries, strings;
        std::uint8_t flags[4];
        std::uint32_t extensions, unused[3];
    };
    struct Entry {
        std::int32_t flags;
        std::uint32_t key, value, unused;
        std::uint64_t hardware;
    };
    static_assert(sizeof(Header) == 48 && sizeof(Entry) == 24);
    constexpr std::string_view magic = "glibc-ld.so.cache1.1";
    const auto file = capture::open_regular(-1, cache);
    struct stat status {};
    if (!file || ::fstat(file->get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) > cache_max)
        return {};
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    Header header{};
    if (bytes.size() < sizeof(header) || !capture::read_all_at(file->get(), 0, bytes))
        return {};
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (std::string_view(header.magic, magic.size()) != magic)
        return {};
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < std::min(header.libraries, cache_libraries_max); ++i) {
        Entry entry{};
        const std::size_t at = sizeof(header) + i * sizeof(entry);
        if (at + sizeof(entry) > bytes.size())
            break;
        std::memcpy(&entry, bytes.data() + at, sizeof(entry));
        if (entry.key < bytes.size() && bytes.find('\0', entry.key) != std::string::npos)
            names.emplace_back(bytes.c_str() + entry.key);
    }
    return names;
}

} // namespace incident::daemon
