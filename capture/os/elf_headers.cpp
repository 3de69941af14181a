#include "capture/os/elf_headers.h"

#include "capture/os/dir_at.h"

#include <cstring>

namespace incident::capture {

namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structures are copied as they are");

template <typename Ehdr, typename Phdr> Result<Elf64_Ehdr> wide_header(const ElfReader &read) {
    Ehdr header;
    if (!read_object(read, 0, header))
        return fail("no ELF header");
    if (header.e_phentsize != sizeof(Phdr))
        return fail("an ELF file with program headers of " + std::to_string(header.e_phentsize) + " bytes");
    Elf64_Ehdr wide{{},
                    header.e_type,
                    header.e_machine,
                    header.e_version,
                    header.e_entry,
                    header.e_phoff,
                    header.e_shoff,
                    header.e_flags,
                    header.e_ehsize,
                    header.e_phentsize,
                    header.e_phnum,
                    header.e_shentsize,
                    header.e_shnum,
                    header.e_shstrndx};
    std::memcpy(wide.e_ident, header.e_ident, sizeof wide.e_ident);
    return wide;
}

template <typename Phdr>
std::vector<Elf64_Phdr> wide_program_headers(const ElfReader &read, std::uint64_t offset, std::size_t count) {
    std::vector<Elf64_Phdr> segments;
    for (Phdr from; segments.size() < count && read_object(read, offset, from);) {
        segments.push_back({from.p_type, from.p_flags, from.p_offset, from.p_vaddr, from.p_paddr, from.p_filesz,
                            from.p_memsz, from.p_align});
        if (__builtin_add_overflow(offset, sizeof from, &offset))
            break;
    }
    return segments;
}

} // namespace

ElfReader reader_of(int fd) {
    return [fd](std::uint64_t offset, std::span<char> into) { return read_all_at(fd, offset, into).has_value(); };
}

ElfReader reader_of_head(std::span<const std::uint8_t> bytes) {
    return [bytes](std::uint64_t offset, std::span<char> into) {
        if (offset > bytes.size() || into.size() > bytes.size() - offset)
            return false;
        if (into.empty())
            return true; // there may be no place to copy to
        std::memcpy(into.data(), bytes.data() + offset, into.size());
        return true;
    };
}

Result<Elf64_Ehdr> read_elf_header(const ElfReader &read) {
    unsigned char ident[EI_NIDENT];
    if (!read_object(read, 0, ident))
        return fail("no ELF header");
    const unsigned char width = ident[EI_CLASS];
    if (std::memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_DATA] != ELFDATA2LSB ||
        (width != ELFCLASS32 && width != ELFCLASS64))
        return fail("no ELF file");
    return width == ELFCLASS64 ? wide_header<Elf64_Ehdr, Elf64_Phdr>(read) : wide_header<Elf32_Ehdr, Elf32_Phdr>(read);
}

std::vector<Elf64_Phdr> read_program_headers(const ElfReader &read, const Elf64_Ehdr &header, std::size_t count) {
    return header.e_ident[EI_CLASS] == ELFCLASS64 ? wide_program_headers<Elf64_Phdr>(read, header.e_phoff, count)
                                                  : wide_program_headers<Elf32_Phdr>(read, header.e_phoff, count);
}

} // namespace incident::capture
