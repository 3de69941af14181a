#include "postmortem/image/core_file.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t alignment = 16; // of what follows in the file: nothing needs it, a hex dump is easier to read

std::size_t aligned(std::size_t size) {
    return (size + alignment - 1) & ~(alignment - 1);
}

template <typename T> void append(std::string &to, const T &object) {
    to.append(reinterpret_cast<const char *>(&object), sizeof object);
}

// The structures of <elf.h> for a core of one width.
struct WideCore {
    using Ehdr = Elf64_Ehdr;
    using Phdr = Elf64_Phdr;
    using Shdr = Elf64_Shdr;
    static constexpr unsigned char file_class = ELFCLASS64;
    static constexpr Elf64_Half machine = EM_X86_64;
};
struct NarrowCore {
    using Ehdr = Elf32_Ehdr;
    using Phdr = Elf32_Phdr;
    using Shdr = Elf32_Shdr;
    static constexpr unsigned char file_class = ELFCLASS32;
    static constexpr Elf32_Half machine = EM_386;
};

template <typename Format> typename Format::Ehdr file_header(std::size_t headers) {
    typename Format::Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = Format::file_class;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_CORE;
    header.e_machine = Format::machine;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(typename Format::Phdr);
    header.e_phnum = static_cast<Elf64_Half>(std::min<std::size_t>(headers, PN_XNUM));
    return header;
}

template <typename Format>
typename Format::Phdr program_header(std::uint32_t type, std::uint32_t flags, std::uint64_t offset,
                                     std::uint64_t address, std::uint64_t size, std::uint64_t align) {
    using Phdr = typename Format::Phdr;
    Phdr header{};
    header.p_type = type;
    header.p_flags = flags;
    header.p_offset = static_cast<decltype(Phdr::p_offset)>(offset);
    header.p_vaddr = static_cast<decltype(Phdr::p_vaddr)>(address);
    header.p_filesz = static_cast<decltype(Phdr::p_filesz)>(size);
    header.p_memsz = type == PT_NOTE ? 0 : header.p_filesz;
    header.p_align = static_cast<decltype(Phdr::p_align)>(align);
    return header;
}

template <typename Format> std::string core_of(std::string_view notes, const std::vector<CoreSegment> &segments) {
    using Ehdr = typename Format::Ehdr;
    using Phdr = typename Format::Phdr;
    using Shdr = typename Format::Shdr;
    const std::size_t headers = segments.size() + 1;
    std::size_t at = aligned(sizeof(Ehdr) + headers * sizeof(Phdr));
    std::string program_headers;
    append(program_headers, program_header<Format>(PT_NOTE, 0, at, 0, notes.size(), 4));
    std::string body(notes);
    for (const CoreSegment &segment : segments) {
        body.resize(aligned(body.size()));
        // p_align 1: pieces begin and end within pages, and what is not known of a page must not seem to be zeros
        append(program_headers, program_header<Format>(PT_LOAD, segment.flags, at + body.size(), segment.address,
                                                       segment.bytes.size(), 1));
        body += segment.bytes;
    }
    Ehdr header = file_header<Format>(headers);
    std::string sections;
    if (headers >= PN_XNUM) { // the number stands in a section header then: elf(5), PN_XNUM
        body.resize(aligned(body.size()));
        header.e_shoff = static_cast<decltype(Ehdr::e_shoff)>(at + body.size());
        header.e_shnum = 1;
        header.e_shentsize = sizeof(Shdr);
        Shdr section{};
        section.sh_size = header.e_shnum;
        section.sh_info = static_cast<Elf64_Word>(headers);
        append(sections, section);
    }
    std::string file;
    file.reserve(at + body.size() + sections.size());
    append(file, header);
    file += program_headers;
    file.resize(at);
    file += body;
    file += sections;
    return file;
}

} // namespace

static_assert(core_segment_overhead >= sizeof(Elf64_Phdr) + alignment);
// the headers, the notes' program header, and what is left unused before and behind the notes and the section header
static_assert(core_file_overhead >= sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + sizeof(Elf64_Shdr) + 3 * alignment);

std::string write_core_file(std::string_view notes, const std::vector<CoreSegment> &segments, capture::Isa isa) {
    return isa == capture::Isa::i386 ? core_of<NarrowCore>(notes, segments) : core_of<WideCore>(notes, segments);
}

} // namespace incident::postmortem
