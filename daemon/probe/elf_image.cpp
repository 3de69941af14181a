#include "daemon/probe/elf_image.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

// The NUL-terminated string at `offset`; "" where there is none.
std::string_view string_at(const std::string &names, std::uint64_t offset) {
    if (offset >= names.size())
        return {};
    const std::size_t end = names.find('\0', offset);
    return end == std::string::npos ? std::string_view{} : std::string_view(names).substr(offset, end - offset);
}

std::uint64_t padded(std::uint64_t length) {
    return (length + 3) & ~3ull;
}

} // namespace

bool ElfImage::read_at(std::uint64_t offset, void *to, std::size_t length) const {
    return offset <= size_ && length <= size_ - offset && read_(offset, {static_cast<char *>(to), length});
}

Result<ElfImage> ElfImage::read(int fd) {
    ElfImage image(fd);
    struct stat status {};
    if (::fstat(fd, &status) != 0)
        return fail(Error::system("fstat"));
    if (!S_ISREG(status.st_mode))
        return fail("is not a regular file");
    image.size_ = static_cast<std::uint64_t>(status.st_size);
    Elf64_Ehdr header{};
    if (!image.read_at(0, &header, sizeof(header)) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        char head[2] = {};
        if (image.read_at(0, head, sizeof(head)) && head[0] == '#' && head[1] == '!')
            return fail("is a script: name its interpreter's program or library");
        return fail("is not an ELF file");
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64)
        return fail(header.e_ident[EI_CLASS] == ELFCLASS32 ? "is a 32-bit program: only x86-64 ones can be probed"
                                                           : "is not an x86-64 program");
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        return fail("is neither a program nor a shared library");
    if (header.e_phnum > segments_max || (header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)))
        return fail("has a malformed program header table");
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    if (!image.read_at(header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr)))
        return fail("ends within its program header table");
    for (const auto &segment : segments)
        if (segment.p_type == PT_LOAD)
            image.segments_.push_back(segment);
    if (auto sections = image.read_sections(header); !sections)
        return fail(sections.error());
    return image;
}

Status ElfImage::read_sections(const Elf64_Ehdr &header) {
    if (header.e_shoff == 0)
        return {}; // legal: nothing to find symbols or probes by
    Elf64_Shdr first{};
    if (header.e_shentsize != sizeof(Elf64_Shdr) || !read_at(header.e_shoff, &first, sizeof(first)))
        return fail("has a malformed section header table");
    // With more sections than fit, the first header holds the numbers (gABI).
    const std::uint64_t count = header.e_shnum ? header.e_shnum : first.sh_size;
    const std::uint64_t names = header.e_shstrndx == SHN_XINDEX ? first.sh_link : header.e_shstrndx;
    if (count > sections_max || names >= count)
        return fail("has a malformed section header table");
    std::vector<Elf64_Shdr> headers(count);
    if (!read_at(header.e_shoff, headers.data(), headers.size() * sizeof(Elf64_Shdr)))
        return fail("ends within its section header table");
    sections_.resize(count);
    for (std::size_t i = 0; i < count; ++i)
        sections_[i].header = headers[i];
    const auto text = names_of(sections_[names]);
    if (!text)
        return fail(text.error());
    for (auto &section : sections_)
        section.name = string_at(*text, section.header.sh_name).substr(0, 256);
    return {};
}

Result<std::string> ElfImage::names_of(const Section &section) const {
    const auto &header = section.header;
    if (header.sh_type != SHT_STRTAB)
        return fail("has a name table that is none");
    if (header.sh_size > names_max)
        return fail(fmt::format("has a name table of {} MiB, more than the {} that are read", header.sh_size >> 20,
                                names_max >> 20));
    if (header.sh_offset > size_ || header.sh_size > size_ - header.sh_offset)
        return fail("ends within a name table");
    std::string text(header.sh_size, '\0');
    if (!read_at(header.sh_offset, text.data(), text.size()))
        return fail("ends within a name table");
    return text;
}

const ElfImage::Section *ElfImage::section_of_type(std::uint32_t type) const {
    const auto found = std::ranges::find_if(sections_, [&](const Section &s) { return s.header.sh_type == type; });
    return found == sections_.end() ? nullptr : &*found;
}

bool ElfImage::has_section(std::string_view name) const {
    return std::ranges::any_of(sections_, [&](const Section &s) { return s.name == name; });
}

std::optional<LinkAddress> ElfImage::section_address(std::string_view name) const {
    for (const auto &section : sections_)
        if (section.name == name)
            return LinkAddress(section.header.sh_addr);
    return std::nullopt;
}

bool ElfImage::has_symbols() const {
    return section_of_type(SHT_SYMTAB) != nullptr;
}

bool ElfImage::has_dynamic_symbols() const {
    return section_of_type(SHT_DYNSYM) != nullptr;
}

std::optional<FileOffset> ElfImage::file_offset(LinkAddress address, bool executable) const {
    for (const auto &segment : segments_) {
        if (executable && !(segment.p_flags & PF_X))
            continue;
        const LinkAddress start(segment.p_vaddr);
        if (address < start || address - start >= segment.p_filesz)
            continue;
        std::uint64_t offset = 0;
        if (!__builtin_add_overflow(segment.p_offset, address - start, &offset) && offset < size_)
            return FileOffset(offset);
    }
    return std::nullopt;
}

std::vector<std::uint8_t> ElfImage::bytes(LinkAddress address, std::size_t length) const {
    const auto offset = file_offset(address, false);
    if (!offset)
        return {};
    std::vector<std::uint8_t> data(std::min<std::uint64_t>(length, size_ - offset->value));
    if (!read_at(offset->value, data.data(), data.size()))
        return {};
    return data;
}

void ElfImage::walk_code(std::size_t overlap,
                         const std::function<bool(LinkAddress, std::span<const std::uint8_t>)> &each) const {
    constexpr std::uint64_t piece = 1ull << 20;
    std::uint64_t walked = 0;
    for (const auto &segment : segments_) {
        if (!(segment.p_flags & PF_X))
            continue;
        for (std::uint64_t done = 0; done < segment.p_filesz && walked < code_max; done += piece, walked += piece) {
            const LinkAddress at(segment.p_vaddr + done);
            const auto code = bytes(at, std::min(piece + overlap, segment.p_filesz - done));
            if (code.empty() || !each(at, code))
                return;
        }
    }
}

// Names of the versions the file defines, by index (.gnu.version_d).
std::vector<std::string> ElfImage::read_versions() const {
    std::vector<std::string> versions;
    const Section *section = section_of_type(SHT_GNU_verdef);
    if (!section || section->header.sh_link >= sections_.size())
        return versions;
    const auto names = names_of(sections_[section->header.sh_link]);
    if (!names)
        return versions;
    const std::uint64_t end = section->header.sh_size;
    std::uint64_t at = 0;
    for (std::uint64_t seen = 0; seen < versions_max; ++seen) {
        Elf64_Verdef definition{};
        Elf64_Verdaux auxiliary{};
        if (at > end || end - at < sizeof(definition) ||
            !read_at(section->header.sh_offset + at, &definition, sizeof(definition)) ||
            end - at < definition.vd_aux + sizeof(auxiliary) ||
            !read_at(section->header.sh_offset + at + definition.vd_aux, &auxiliary, sizeof(auxiliary)))
            break;
        const std::size_t index = definition.vd_ndx & 0x7fff;
        if (index < versions_max) {
            versions.resize(std::max(versions.size(), index + 1));
            if (!(definition.vd_flags & VER_FLG_BASE)) // the base names the file itself
                versions[index] = string_at(*names, auxiliary.vda_name).substr(0, 256);
        }
        if (definition.vd_next == 0)
            break;
        at += definition.vd_next;
    }
    return versions;
}

Status ElfImage::walk_table(const Section &table, const std::function<bool(const ElfSymbol &)> &each,
                            bool &go_on) const {
    const auto &header = table.header;
    const std::uint64_t count = header.sh_size / sizeof(Elf64_Sym);
    if (header.sh_entsize != sizeof(Elf64_Sym) || header.sh_link >= sections_.size() || count > symbols_max)
        return fail(fmt::format("has a malformed symbol table ({})", table.name));
    const auto names = names_of(sections_[header.sh_link]);
    if (!names)
        return fail(names.error());
    std::vector<std::string> versions;
    const Section *indices = header.sh_type == SHT_DYNSYM ? section_of_type(SHT_GNU_versym) : nullptr;
    if (indices)
        versions = read_versions();

    constexpr std::uint64_t chunk = 4096;
    std::vector<Elf64_Sym> symbols;
    std::vector<std::uint16_t> version;
    for (std::uint64_t first = 1; first < count && go_on; first += symbols.size()) { // 0 is the null symbol
        symbols.resize(std::min(chunk, count - first));
        if (!read_at(header.sh_offset + first * sizeof(Elf64_Sym), symbols.data(), symbols.size() * sizeof(Elf64_Sym)))
            return fail(fmt::format("ends within its symbol table ({})", table.name));
        version.assign(symbols.size(), 1);
        if (indices && indices->header.sh_size / 2 >= first + symbols.size() &&
            !read_at(indices->header.sh_offset + first * 2, version.data(), version.size() * 2))
            version.assign(symbols.size(), 1);
        for (std::size_t i = 0; i < symbols.size() && go_on; ++i) {
            ElfSymbol symbol;
            symbol.name = string_at(*names, symbols[i].st_name);
            if (symbol.name.empty())
                continue;
            symbol.address = LinkAddress(symbols[i].st_value);
            symbol.size = symbols[i].st_size;
            symbol.type = ELF64_ST_TYPE(symbols[i].st_info);
            symbol.binding = ELF64_ST_BIND(symbols[i].st_info);
            symbol.defined = symbols[i].st_shndx != SHN_UNDEF;
            if (const std::size_t index = version[i] & 0x7fff; index > 1 && index < versions.size() && symbol.defined) {
                symbol.version = versions[index];
                symbol.default_version = !(version[i] & 0x8000);
            }
            // .symtab has the version in the name
            if (const std::size_t sign = symbol.name.find('@'); sign != std::string_view::npos && sign > 0) {
                symbol.default_version = symbol.name.substr(sign).starts_with("@@");
                symbol.version = symbol.name.substr(sign + (symbol.default_version ? 2 : 1));
                symbol.name = symbol.name.substr(0, sign);
            }
            go_on = each(symbol);
        }
    }
    return {};
}

Status ElfImage::walk_symbols(const std::function<bool(const ElfSymbol &)> &each) const {
    bool go_on = true;
    for (const std::uint32_t type : {SHT_SYMTAB, SHT_DYNSYM})
        if (const Section *table = section_of_type(type); table && go_on)
            if (auto walked = walk_table(*table, each, go_on); !walked)
                return walked;
    return {};
}

void ElfImage::walk_notes(std::string_view name, const std::function<void(const ElfNote &)> &each) const {
    for (const auto &section : sections_) {
        const auto &header = section.header;
        if (section.name != name || header.sh_type != SHT_NOTE || header.sh_size > notes_max ||
            header.sh_offset > size_ || header.sh_size > size_ - header.sh_offset)
            continue;
        std::string bytes(header.sh_size, '\0');
        if (!read_at(header.sh_offset, bytes.data(), bytes.size()))
            continue;
        for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes.size();) {
            Elf64_Nhdr note{};
            std::memcpy(&note, bytes.data() + at, sizeof(note));
            // 32-bit lengths in 64-bit sums: no overflow
            const std::uint64_t own_name = at + sizeof(note), description = own_name + padded(note.n_namesz);
            if (description + note.n_descsz > bytes.size())
                break;
            std::string_view text(bytes.data() + own_name, note.n_namesz);
            if (text.ends_with('\0'))
                text.remove_suffix(1);
            each({text, note.n_type, std::string_view(bytes).substr(description, note.n_descsz)});
            at = description + padded(note.n_descsz);
        }
    }
}

} // namespace incident::daemon
