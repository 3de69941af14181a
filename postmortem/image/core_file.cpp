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

Elf64_Ehdr file_header(std::size_t headers) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_CORE;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<Elf64_Half>(std::min<std::size_t>(headers, PN_XNUM));
    return header;
}

} // namespace

static_assert(core_segment_overhead >= sizeof(Elf64_Phdr) + alignment);
// the headers, the notes' program header, and what is left unused before and behind the notes and the section header
static_assert(core_file_overhead >= sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + sizeof(Elf64_Shdr) + 3 * alignment);

std::string write_core_file(std::string_view notes, const std::vector<CoreSegment> &segments) {
    const std::size_t headers = segments.size() + 1;
    std::size_t at = aligned(sizeof(Elf64_Ehdr) + headers * sizeof(Elf64_Phdr));
    std::string program_headers;
    append(program_headers, Elf64_Phdr{PT_NOTE, 0, at, 0, 0, notes.size(), 0, 4});
    std::string body(notes);
    for (const CoreSegment &segment : segments) {
        body.resize(aligned(body.size()));
        // p_align 1: pieces begin and end within pages, and what is not known of a page must not seem to be zeros
        append(program_headers, Elf64_Phdr{PT_LOAD, segment.flags, at + body.size(), segment.address, 0,
                                           segment.bytes.size(), segment.bytes.size(), 1});
        body += segment.bytes;
    }
    Elf64_Ehdr header = file_header(headers);
    std::string sections;
    if (headers >= PN_XNUM) { // the number stands in a section header then: elf(5), PN_XNUM
        body.resize(aligned(body.size()));
        header.e_shoff = at + body.size();
        header.e_shnum = 1;
        header.e_shentsize = sizeof(Elf64_Shdr);
        Elf64_Shdr section{};
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

} // namespace incident::postmortem
