#include "capture/modules/module_copy.h"

#include "capture/bundle/manifest.h"
#include "capture/collect/collect.h"
#include "capture/modules/kept_name.h"
#include "capture/os/elf_headers.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace incident::capture {

namespace {

constexpr std::uint64_t first_page = 4096;
constexpr std::size_t segments_max = 256;
constexpr std::uint64_t sections_max = 4096; // linked files have some 40
constexpr std::uint64_t names_max = 1u << 20;
constexpr std::uint64_t small_names = 64u << 10; // the names of sections

// Sections that are kept for their names.  Their types say no more than "the program's".
constexpr std::string_view kept_names[] = {".eh_frame",      ".eh_frame_hdr",
                                           ".debug_frame",   ".gnu_debugdata",
                                           ".gnu_debuglink", ".gnu_debugaltlink",
                                           ".plt",           ".plt.sec",
                                           ".plt.got",       ".iplt",
                                           ".rela.plt",      ".rel.plt",
                                           ".gopclntab",     ".data.rel.ro.gopclntab"};

struct Range {
    std::uint64_t offset = 0, length = 0;
    std::uint64_t end() const { return offset + length; }
};

// One section header of either class, and where it stands.
struct Section {
    Elf64_Shdr header;
    std::uint64_t at = 0;
};

template <typename Shdr> bool read_section(const ElfReader &read, std::uint64_t at, Elf64_Shdr &wide) {
    Shdr header;
    if (!read_object(read, at, header))
        return false;
    wide = {header.sh_name, header.sh_type, header.sh_flags, header.sh_addr,      header.sh_offset,
            header.sh_size, header.sh_link, header.sh_info,  header.sh_addralign, header.sh_entsize};
    return true;
}

class Copier {
public:
    Copier(int fd, std::uint64_t file_size, std::uint64_t most) : read_(reader_of(fd)), size_(file_size), most_(most) {}

    Result<ModuleCopy> copy();

private:
    void add(std::uint64_t offset, std::uint64_t length); // of the file, as far as it goes
    void read_sections();
    void add_sections();
    void add_segments();
    bool is_kept(const Elf64_Shdr &section) const;
    void choose(); // ranges_
    std::uint64_t chosen() const;
    Result<ModuleCopy> pieces();
    void mark_missing(ModuleCopy &copy) const;

    ElfReader read_;
    std::uint64_t size_, most_;
    Elf64_Ehdr header_{};
    bool wide_ = false; // of 64 bits
    std::vector<Section> sections_;
    std::string names_;         // of sections
    std::vector<Range> ranges_; // in their order, apart from each other
    bool wants_symtab_ = true;
};

void Copier::add(std::uint64_t offset, std::uint64_t length) {
    if (offset < size_ && length > 0)
        ranges_.push_back({offset, std::min(length, size_ - offset)});
}

void Copier::read_sections() {
    const std::uint64_t each = wide_ ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    if (header_.e_shoff == 0 || header_.e_shoff >= size_ || header_.e_shentsize != each)
        return;
    const auto read = [&](std::uint64_t number, Elf64_Shdr &into) {
        const std::uint64_t at = header_.e_shoff + number * each;
        return wide_ ? read_section<Elf64_Shdr>(read_, at, into) : read_section<Elf32_Shdr>(read_, at, into);
    };
    Elf64_Shdr first{};
    if (!read(0, first))
        return;
    // Where there are too many for the header, the first section has the numbers (gABI, "Section Header").
    const std::uint64_t count = header_.e_shnum ? header_.e_shnum : first.sh_size;
    const std::uint64_t names = header_.e_shstrndx == SHN_XINDEX ? first.sh_link : header_.e_shstrndx;
    if (count > sections_max)
        return;
    for (std::uint64_t i = 0; i < count; ++i) {
        Section section{.header = {}, .at = header_.e_shoff + i * each};
        if (!read(i, section.header)) {
            sections_.clear();
            return;
        }
        sections_.push_back(section);
    }
    if (names < sections_.size()) {
        const Elf64_Shdr &table = sections_[names].header;
        std::string text(std::min(table.sh_size, names_max), '\0');
        if (table.sh_type == SHT_STRTAB && read_(table.sh_offset, text))
            names_ = std::move(text);
    }
}

bool Copier::is_kept(const Elf64_Shdr &section) const {
    switch (section.sh_type) {
    case SHT_NOTE:
        return true;
    case SHT_SYMTAB:
    case SHT_SYMTAB_SHNDX:
        return wants_symtab_;
    case SHT_STRTAB: // loaded ones belong to the dynamic symbols
        return wants_symtab_ || (section.sh_flags & SHF_ALLOC) || section.sh_size <= small_names;
    case SHT_DYNSYM:
    case SHT_DYNAMIC:
    case SHT_GNU_versym:
    case SHT_GNU_verdef:
    case SHT_GNU_verneed:
        return true;
    case SHT_NULL:
    case SHT_NOBITS:
        return false;
    default:
        break;
    }
    if (section.sh_name >= names_.size())
        return false;
    const std::string_view name(names_.c_str() + section.sh_name);
    return std::ranges::find(kept_names, name) != std::end(kept_names);
}

void Copier::add_sections() {
    for (const Section &section : sections_)
        if (is_kept(section.header))
            add(section.header.sh_offset, section.header.sh_size);
}

// Of a file without section headers: what the dynamic loader and the unwinder use.  .eh_frame stands behind
// .eh_frame_hdr, in the same segment.
void Copier::add_segments() {
    const auto segments = read_program_headers(read_, header_, std::min<std::size_t>(header_.e_phnum, segments_max));
    for (const Elf64_Phdr &segment : segments) {
        const bool only_read = segment.p_type == PT_LOAD && (segment.p_flags & (PF_W | PF_X)) == 0;
        if (segment.p_type == PT_NOTE || segment.p_type == PT_INTERP ||
            (segment.p_type == PT_DYNAMIC || (sections_.empty() && only_read)))
            add(segment.p_offset, segment.p_filesz);
        if (segment.p_type != PT_GNU_EH_FRAME || !sections_.empty())
            continue;
        for (const Elf64_Phdr &around : segments)
            if (around.p_type == PT_LOAD && segment.p_offset >= around.p_offset &&
                segment.p_offset - around.p_offset < around.p_filesz)
                add(segment.p_offset, around.p_filesz - (segment.p_offset - around.p_offset));
    }
}

void Copier::choose() {
    ranges_.clear();
    add(0, first_page); // with what debuggers look for where a file is mapped: headers, and as a rule notes
    add(header_.e_phoff, std::uint64_t{header_.e_phnum} * header_.e_phentsize);
    add_sections();
    add_segments();
    if (!sections_.empty())
        add(header_.e_shoff, sections_.size() * header_.e_shentsize);
    std::ranges::sort(ranges_, {}, &Range::offset);
    std::vector<Range> apart;
    for (const Range &range : ranges_)
        if (!apart.empty() && range.offset <= apart.back().end())
            apart.back().length = std::max(apart.back().end(), range.end()) - apart.back().offset;
        else
            apart.push_back(range);
    ranges_ = std::move(apart);
}

std::uint64_t Copier::chosen() const {
    std::uint64_t all = 0;
    for (const Range &range : ranges_)
        all += range.length;
    return all;
}

Result<ModuleCopy> Copier::pieces() {
    choose();
    if (chosen() > most_) {
        wants_symtab_ = false;
        choose();
    }
    if (chosen() > most_)
        return fail(fmt::format("{} bytes would have to be kept of it, the most is {}", chosen(), most_));
    ModuleCopy copy;
    for (const Range &range : ranges_) {
        ModuleCopy::Piece piece{range.offset, std::string(range.length, '\0')};
        if (!read_(piece.offset, piece.bytes))
            return fail("it became shorter while it was read");
        copy.pieces.push_back(std::move(piece));
    }
    return copy;
}

// sh_type stands at the same place in both classes.
void Copier::mark_missing(ModuleCopy &copy) const {
    const std::uint32_t missing = SHT_NOBITS;
    for (const Section &section : sections_) {
        if (section.header.sh_type == SHT_NULL || is_kept(section.header))
            continue;
        const std::uint64_t at = section.at + offsetof(Elf64_Shdr, sh_type);
        for (ModuleCopy::Piece &piece : copy.pieces)
            if (at >= piece.offset &&
                at - piece.offset <= piece.bytes.size() - std::min(piece.bytes.size(), sizeof missing))
                std::memcpy(piece.bytes.data() + (at - piece.offset), &missing, sizeof missing);
    }
}

Result<ModuleCopy> Copier::copy() {
    static_assert(offsetof(Elf64_Shdr, sh_type) == offsetof(Elf32_Shdr, sh_type));
    auto header = read_elf_header(read_);
    if (!header)
        return fail(std::move(header.error()));
    header_ = *header;
    wide_ = header_.e_ident[EI_CLASS] == ELFCLASS64;
    read_sections();
    auto copy = pieces();
    if (!copy)
        return copy;
    mark_missing(*copy);
    Sha256 hash;
    for (const ModuleCopy::Piece &piece : copy->pieces) {
        hash.add({reinterpret_cast<const std::uint8_t *>(&piece.offset), sizeof piece.offset});
        hash.add(bytes_of_text(piece.bytes));
    }
    copy->name = hash.hex();
    if (copy->name.empty())
        return fail("no SHA-256 could be made");
    return copy;
}

} // namespace

std::uint64_t ModuleCopy::bytes() const {
    std::uint64_t all = 0;
    for (const Piece &piece : pieces)
        all += piece.bytes.size();
    return all;
}

Result<ModuleCopy> copy_module(int fd, std::uint64_t most) {
    struct stat status {};
    if (::fstat(fd, &status) != 0)
        return fail(Error::system("fstat"));
    if (!S_ISREG(status.st_mode) || status.st_size <= 0)
        return fail("no regular file with bytes");
    auto copy = Copier(fd, static_cast<std::uint64_t>(status.st_size), most).copy();
    if (!copy)
        return copy;
    copy->build_id = build_id_of_file(fd);
    copy->name = kept_name(copy->build_id, copy->name);
    return copy;
}

} // namespace incident::capture
