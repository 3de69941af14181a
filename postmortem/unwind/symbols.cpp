#include "postmortem/unwind/symbols.h"

#include <gelf.h>

#include <algorithm>
#include <cstring>

namespace incident::postmortem {

namespace {

// Symbols looked back over for one that spans an address: names within another function are few.
constexpr std::size_t look_back_max = 64;

std::uint8_t preference_of(const GElf_Sym &symbol, const char *name) {
    std::uint8_t preference = 0;
    const int bind = GELF_ST_BIND(symbol.st_info), type = GELF_ST_TYPE(symbol.st_info);
    if (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_OBJECT)
        preference += 16;
    if (symbol.st_size != 0)
        preference += 8;
    if (bind == STB_GLOBAL)
        preference += 2;
    else if (bind == STB_WEAK)
        preference += 1;
    if (name[0] != '_')
        preference += 4; // raise rather than __GI_raise
    return preference;
}

// "fopen@@GLIBC_2.2.5" → "fopen"
std::string_view without_version(std::string_view name) {
    return name.substr(0, name.find('@'));
}

// The section a symbol lies in, as it is linked; empty where it lies in none (SHN_ABS, SHN_XINDEX).
GElf_Shdr section_of(Elf *elf, const GElf_Sym &symbol) {
    GElf_Shdr section{};
    Elf_Scn *scn = symbol.st_shndx < SHN_LORESERVE ? elf_getscn(elf, symbol.st_shndx) : nullptr;
    return scn && gelf_getshdr(scn, &section) ? section : GElf_Shdr{};
}

bool is_code(const GElf_Shdr &section, int type) {
    return type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && (section.sh_flags & SHF_EXECINSTR));
}

} // namespace

void Symbols::add(Elf *elf) {
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        if (!gelf_getshdr(scn, &header) || (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) ||
            header.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(scn, nullptr);
        if (!data)
            continue;
        const std::size_t count = std::min<std::uint64_t>(data->d_size / header.sh_entsize, INT32_MAX);
        for (std::size_t i = 1; i < count; ++i) {
            GElf_Sym symbol;
            if (!gelf_getsym(data, static_cast<int>(i), &symbol))
                break;
            const int type = GELF_ST_TYPE(symbol.st_info);
            if (symbol.st_shndx == SHN_UNDEF || type == STT_FILE || type == STT_SECTION || type == STT_TLS)
                continue;
            const GElf_Shdr section = section_of(elf, symbol);
            const bool code = is_code(section, type);
            if (!code && type != STT_OBJECT)
                continue;
            const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
            if (!name || !*name)
                continue;
            if (functions_.size() + data_.size() >= symbols_max) {
                cut_ = true;
                return;
            }
            (code ? functions_ : data_)
                .push_back({LinkAddress(symbol.st_value), symbol.st_size,
                            LinkAddress(section.sh_addr + section.sh_size), name, preference_of(symbol, name), code});
        }
    }
}

void Symbols::sort() {
    // Among symbols at one address the preferred name comes last, because upper_bound's predecessor is used.
    const auto order = [](const Symbol &a, const Symbol &b) {
        return a.address != b.address         ? a.address < b.address
               : a.preference != b.preference ? a.preference < b.preference
                                              : std::strcmp(a.name, b.name) > 0;
    };
    std::ranges::sort(functions_, order);
    std::ranges::sort(data_, order);
}

const Symbol *Symbols::at(const std::vector<Symbol> &symbols, LinkAddress address) const {
    auto it = std::ranges::upper_bound(symbols, address, {}, &Symbol::address);
    const Symbol *unsized = nullptr;
    for (std::size_t looked = 0; it != symbols.begin() && looked < look_back_max; ++looked) {
        const Symbol &symbol = *--it;
        if (symbol.size == 0) {
            if (!unsized && address < symbol.section_end)
                unsized = &symbol;
        } else if (address - symbol.address < symbol.size) {
            return &symbol; // a label within it does not hide it
        } else if (unsized) {
            break; // what has a size ended before the label began
        }
    }
    return unsized;
}

const Symbol *Symbols::function_at(LinkAddress address) const {
    return at(functions_, address);
}

const Symbol *Symbols::data_at(LinkAddress address) const {
    const Symbol *symbol = at(data_, address);
    return symbol && (symbol->address == address || symbol->size != 0) ? symbol : nullptr;
}

std::optional<LinkAddress> Symbols::address_of(std::string_view name) const {
    if (by_name_.empty())
        for (const Symbol &symbol : functions_)
            by_name_.try_emplace(without_version(symbol.name), symbol.address);
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

bool Symbols::is_called(LinkAddress address, std::string_view name) const {
    const auto range = std::ranges::equal_range(functions_, address, {}, &Symbol::address);
    return std::ranges::any_of(range, [&](const Symbol &symbol) { return without_version(symbol.name) == name; });
}

} // namespace incident::postmortem
