#include "postmortem/image/elf_symbols.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <optional>

namespace incident::postmortem {

namespace {

struct Section {
    std::uint32_t type = 0, link = 0;
    std::uint64_t offset = 0, size = 0;
};

// The structures of <elf.h> for a file of one width.
struct WideTables {
    using Shdr = Elf64_Shdr;
    using Sym = Elf64_Sym;
};
struct NarrowTables {
    using Shdr = Elf32_Shdr;
    using Sym = Elf32_Sym;
};

template <typename Format> std::vector<Section> sections_of(const ElfReader &read, const Elf64_Ehdr &header) {
    using Shdr = typename Format::Shdr;
    if (header.e_shentsize != sizeof(Shdr) || header.e_shnum > elf_sections_max)
        return {};
    std::vector<Shdr> found(header.e_shnum);
    if (!read(header.e_shoff, {reinterpret_cast<char *>(found.data()), found.size() * sizeof(Shdr)}))
        return {};
    std::vector<Section> sections;
    sections.reserve(found.size());
    for (const Shdr &section : found)
        sections.push_back({section.sh_type, section.sh_link, section.sh_offset, section.sh_size});
    return sections;
}

std::string section_bytes(const ElfReader &read, const Section &section) {
    if (section.type == SHT_NOBITS || section.size > symbol_table_max)
        return "";
    std::string bytes(section.size, '\0');
    return read(section.offset, bytes) ? bytes : "";
}

using Found = std::map<std::string, LinkAddress, std::less<>>;

template <typename Format>
Found symbols_of(const ElfReader &read, const Elf64_Ehdr &header, const std::vector<std::string_view> &names) {
    Found found;
    const std::vector<Section> sections = sections_of<Format>(read, header);
    for (const Section &section : sections) {
        if ((section.type != SHT_SYMTAB && section.type != SHT_DYNSYM) || section.link >= sections.size())
            continue;
        const std::string symbols = section_bytes(read, section), strings = section_bytes(read, sections[section.link]);
        typename Format::Sym symbol;
        for (std::size_t at = 0; at + sizeof symbol <= symbols.size() && found.size() < names.size();
             at += sizeof symbol) {
            std::memcpy(&symbol, symbols.data() + at, sizeof symbol);
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings.size())
                continue;
            const std::string_view rest = std::string_view(strings).substr(symbol.st_name);
            for (std::string_view name : names)
                if (rest.starts_with(name) && (rest.size() == name.size() || rest[name.size()] == '\0'))
                    found.emplace(name, LinkAddress(symbol.st_value));
        }
    }
    return found;
}

} // namespace

Found find_symbols(const ElfReader &read, const std::vector<std::string_view> &names) {
    const auto header = capture::read_elf_header(read);
    if (!header)
        return {};
    return header->e_ident[EI_CLASS] == ELFCLASS64 ? symbols_of<WideTables>(read, *header, names)
                                                   : symbols_of<NarrowTables>(read, *header, names);
}

} // namespace incident::postmortem
