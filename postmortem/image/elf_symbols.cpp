#include "postmortem/image/elf_symbols.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <optional>

namespace incident::postmortem {

namespace {

std::vector<Elf64_Shdr> sections_of(const ElfReader &read) {
    const auto header = capture::read_elf_header(read);
    if (!header || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > elf_sections_max)
        return {};
    std::vector<Elf64_Shdr> sections(header->e_shnum);
    if (!read(header->e_shoff, {reinterpret_cast<char *>(sections.data()), sections.size() * sizeof(Elf64_Shdr)}))
        sections.clear();
    return sections;
}

std::string section_bytes(const ElfReader &read, const Elf64_Shdr &section) {
    if (section.sh_type == SHT_NOBITS || section.sh_size > symbol_table_max)
        return "";
    std::string bytes(section.sh_size, '\0');
    return read(section.sh_offset, bytes) ? bytes : "";
}

} // namespace

std::map<std::string, LinkAddress, std::less<>> find_symbols(const ElfReader &read,
                                                             const std::vector<std::string_view> &names) {
    std::map<std::string, LinkAddress, std::less<>> found;
    const std::vector<Elf64_Shdr> sections = sections_of(read);
    for (const Elf64_Shdr &section : sections) {
        if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) || section.sh_link >= sections.size())
            continue;
        const std::string symbols = section_bytes(read, section),
                          strings = section_bytes(read, sections[section.sh_link]);
        Elf64_Sym symbol;
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

} // namespace incident::postmortem
