// Reads the GNU build-id note of an ELF file.
#include "capture/collect/collect.h"
#include "capture/os/elf_headers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace incident::capture {

namespace {

constexpr std::size_t PHDRS_MAX = 256;
constexpr std::uint64_t NOTES_MAX = 64 * 1024; // bytes of one PT_NOTE segment looked at
constexpr std::uint32_t BUILD_ID_MAX = 64;     // SHA-1 has 20 bytes, ld --build-id=0x… any

std::uint64_t padded(std::uint64_t length, std::uint64_t align) {
    return (length + align - 1) & ~(align - 1);
}

// Notes are the same in both classes; those of a segment aligned to 8 are padded to 8 (gABI).
std::string build_id_in_notes(const std::vector<char> &notes, std::uint64_t align) {
    std::uint64_t at = 0;
    while (at + sizeof(Elf64_Nhdr) <= notes.size()) {
        Elf64_Nhdr note;
        std::memcpy(&note, notes.data() + at, sizeof note);
        const std::uint64_t name = at + sizeof note;
        // 32-bit lengths in 64-bit sums: no overflow.
        const std::uint64_t description = at + padded(sizeof note + note.n_namesz, align);
        const std::uint64_t next = padded(description + note.n_descsz, align);
        if (description + note.n_descsz > notes.size())
            return "";
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0 &&
            note.n_descsz > 0 && note.n_descsz <= BUILD_ID_MAX)
            return fmt::format(
                "{:02x}",
                fmt::join(std::span<const unsigned char>(
                              reinterpret_cast<const unsigned char *>(notes.data()) + description, note.n_descsz),
                          ""));
        at = next;
    }
    return "";
}

std::string build_id_of(const ElfReader &read) {
    const auto header = read_elf_header(read);
    if (!header)
        return "";
    for (const Elf64_Phdr &segment :
         read_program_headers(read, *header, std::min<std::size_t>(header->e_phnum, PHDRS_MAX))) {
        if (segment.p_type != PT_NOTE || segment.p_filesz == 0)
            continue;
        std::vector<char> notes(std::min<std::uint64_t>(segment.p_filesz, NOTES_MAX));
        if (!read(segment.p_offset, notes))
            continue; // this one lies beyond the bytes at hand; another may not
        if (std::string id = build_id_in_notes(notes, segment.p_align == 8 ? 8 : 4); !id.empty())
            return id;
    }
    return "";
}

} // namespace

std::string build_id_of_file(int fd) {
    struct stat st;
    if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) // a device or FIFO might block
        return "";
    return build_id_of(reader_of(fd));
}

std::string build_id_of_head(const std::uint8_t *bytes, std::size_t length) {
    return build_id_of(reader_of_head({bytes, length}));
}

} // namespace incident::capture
