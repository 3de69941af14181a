#include "postmortem/image/elf_layout.h"

#include <algorithm>
#include <elf.h>

namespace incident::postmortem {

namespace {

bool sums_up(std::uint64_t start, std::uint64_t length) {
    std::uint64_t end;
    return !__builtin_add_overflow(start, length, &end);
}

std::optional<Isa> isa_of_header(const Elf64_Ehdr &header) {
    const unsigned char width = header.e_ident[EI_CLASS];
    if (width == ELFCLASS64 && header.e_machine == EM_X86_64)
        return Isa::x86_64;
    if (width == ELFCLASS32 && header.e_machine == EM_386)
        return Isa::i386;
    return std::nullopt; // of the x32 ABI too: ELFCLASS32, EM_X86_64
}

} // namespace

bool ElfSegment::sane() const {
    return sums_up(offset.value, file_size) && sums_up(address.value, memory_size) && file_size <= memory_size;
}

const ElfSegment *ElfLayout::first(std::uint32_t type) const {
    auto it = std::ranges::find(segments, type, &ElfSegment::type);
    return it == segments.end() ? nullptr : &*it;
}

const ElfSegment *ElfLayout::load_of_offset(FileOffset offset) const {
    for (const ElfSegment &segment : segments)
        if (segment.type == PT_LOAD && offset >= segment.offset && offset - segment.offset < segment.file_size)
            return &segment;
    return nullptr;
}

std::optional<LoadBias> ElfLayout::bias(UserAddress start, FileOffset first_offset) const {
    for (const ElfSegment &segment : segments) {
        // The kernel and ld.so map whole pages: from the page the segment begins in.
        const std::uint64_t before = segment.offset.value % page_size;
        const FileOffset page = segment.offset - before;
        if (segment.type != PT_LOAD || first_offset < page || first_offset - page >= before + segment.file_size)
            continue;
        const LoadBias bias = start - (segment.address - before + (first_offset - page));
        return relocatable || bias == LoadBias() ? std::optional(bias) : std::nullopt;
    }
    return std::nullopt;
}

std::optional<LinkAddress> ElfLayout::headers_address() const {
    const ElfSegment *segment = load_of_offset(headers_offset);
    return segment ? std::optional(segment->address + (headers_offset - segment->offset)) : std::nullopt;
}

bool ElfLayout::writable(LinkAddress address) const {
    return std::ranges::any_of(segments, [&](const ElfSegment &segment) {
        const LinkAddress start(segment.address.value & ~(page_size - 1));
        return segment.type == PT_LOAD && (segment.flags & PF_W) && address >= start &&
               address - start < segment.address - start + segment.memory_size;
    });
}

Result<ElfLayout> read_elf_layout(const ElfReader &read) {
    const auto header = capture::read_elf_header(read);
    if (!header)
        return fail(header.error());
    const auto isa = isa_of_header(*header);
    if (!isa)
        return fail("neither an x86-64 nor an i386 ELF file");
    if (header->e_type != ET_DYN && header->e_type != ET_EXEC)
        return fail("an ELF file that is neither a program nor a shared object");
    if (header->e_phnum == 0 || header->e_phnum > elf_headers_max)
        return fail("an ELF file with " + std::to_string(header->e_phnum) + " program headers");
    ElfLayout layout;
    layout.isa = *isa;
    layout.header_size = header->e_phentsize;
    layout.relocatable = header->e_type == ET_DYN;
    layout.entry = LinkAddress(header->e_entry);
    layout.headers_offset = FileOffset(header->e_phoff);
    layout.headers = header->e_phnum;
    const auto segments = capture::read_program_headers(read, *header, header->e_phnum);
    if (segments.size() < header->e_phnum)
        return fail("program headers beyond the end of what can be read");
    for (const Elf64_Phdr &from : segments) {
        const ElfSegment segment{
            from.p_type, from.p_flags, FileOffset(from.p_offset), from.p_filesz, LinkAddress(from.p_vaddr),
            from.p_memsz};
        if (segment.sane())
            layout.segments.push_back(segment);
    }
    return layout;
}

std::string segment_bytes(const ElfReader &read, const ElfSegment &segment, std::uint64_t most) {
    std::string bytes;
    if (segment.file_size > most)
        return bytes;
    bytes.resize(segment.file_size);
    if (!read(segment.offset.value, bytes))
        bytes.clear();
    return bytes;
}

std::string elf_head(const ElfReader &read, const ElfLayout &layout) {
    const ElfSegment *load = layout.load_of_offset(FileOffset());
    if (!load)
        return "";
    std::uint64_t end = std::max(page_size, layout.headers_offset.value + layout.headers_size());
    for (const ElfSegment &segment : layout.segments)
        if (segment.type == PT_NOTE && segment.offset.value + segment.file_size <= elf_head_max)
            end = std::max(end, segment.offset.value + segment.file_size);
    std::string head(std::min({end, elf_head_max, load->file_size}), '\0');
    if (!read(0, head))
        head.clear();
    return head;
}

} // namespace incident::postmortem
