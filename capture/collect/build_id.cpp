// The GNU build-id note of an ELF file.  Done by hand instead of with libelf: the
// bytes come from files and memory that a hostile process made, the daemon reads
// them, and three structures are all it takes.
#include "capture/collect/collect.h"
#include "capture/os/dir_at.h"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace incident::capture {

namespace {

constexpr std::size_t PHDRS_MAX = 256;
constexpr std::uint64_t NOTES_MAX = 64 * 1024; // bytes of one PT_NOTE segment looked at
constexpr std::uint32_t BUILD_ID_MAX = 64;     // SHA-1 has 20 bytes, ld --build-id=0x… any

// Bytes [offset, offset + length) of the ELF file; false if they are not to be had.
using Reader = std::function<bool(std::uint64_t offset, void *to, std::size_t length)>;

std::string hex(const std::uint8_t *bytes, std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) {
        text += "0123456789abcdef"[bytes[i] >> 4];
        text += "0123456789abcdef"[bytes[i] & 15];
    }
    return text;
}

std::uint64_t padded(std::uint64_t length, std::uint64_t align) {
    return (length + align - 1) & ~(align - 1);
}

// Notes are the same in both classes; those of a segment aligned to 8 are padded to 8 (gABI).
std::string build_id_in_notes(const std::vector<std::uint8_t> &notes, std::uint64_t align) {
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
            return hex(notes.data() + description, note.n_descsz);
        at = next;
    }
    return "";
}

template <typename Ehdr, typename Phdr> std::string build_id(const Reader &read) {
    Ehdr header;
    if (!read(0, &header, sizeof header) || header.e_phentsize != sizeof(Phdr))
        return "";
    const std::size_t count = std::min<std::size_t>(header.e_phnum, PHDRS_MAX);
    for (std::size_t i = 0; i < count; ++i) {
        Phdr segment;
        std::uint64_t where = 0;
        if (__builtin_add_overflow(std::uint64_t{header.e_phoff}, i * sizeof segment, &where) ||
            !read(where, &segment, sizeof segment))
            return "";
        if (segment.p_type != PT_NOTE || segment.p_filesz == 0)
            continue;
        std::vector<std::uint8_t> notes(std::min<std::uint64_t>(segment.p_filesz, NOTES_MAX));
        if (!read(segment.p_offset, notes.data(), notes.size()))
            continue; // this one lies beyond the bytes at hand; another may not
        if (std::string id = build_id_in_notes(notes, segment.p_align == 8 ? 8 : 4); !id.empty())
            return id;
    }
    return "";
}

std::string build_id_of(const Reader &read) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structures are copied as they are");
    unsigned char ident[EI_NIDENT];
    if (!read(0, ident, sizeof ident) || std::memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_DATA] != ELFDATA2LSB)
        return "";
    if (ident[EI_CLASS] == ELFCLASS64)
        return build_id<Elf64_Ehdr, Elf64_Phdr>(read);
    if (ident[EI_CLASS] == ELFCLASS32)
        return build_id<Elf32_Ehdr, Elf32_Phdr>(read);
    return "";
}

} // namespace

std::string build_id_of_file(int fd) {
    struct stat st;
    if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) // a device or FIFO might block
        return "";
    return build_id_of([fd](std::uint64_t offset, void *to, std::size_t length) {
        if (offset > static_cast<std::uint64_t>(INT64_MAX) - length)
            return false;
        auto *bytes = static_cast<char *>(to);
        for (std::size_t done = 0; done < length;) {
            const ssize_t n =
                retry([&] { return ::pread(fd, bytes + done, length - done, static_cast<off_t>(offset + done)); });
            if (n <= 0)
                return false;
            done += static_cast<std::size_t>(n);
        }
        return true;
    });
}

std::string build_id_of_head(const std::uint8_t *bytes, std::size_t length) {
    return build_id_of([=](std::uint64_t offset, void *to, std::size_t wanted) {
        if (offset > length || wanted > length - offset)
            return false;
        std::memcpy(to, bytes + offset, wanted);
        return true;
    });
}

} // namespace incident::capture
