#include "postmortem/unwind/go_file.h"

#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace incident::postmortem {

namespace {

constexpr std::size_t go_relocations_max = 8u << 20;
constexpr std::uint64_t text_in_header = 24; // pcHeader.textStart

struct GoSection {
    std::string_view name;
    LinkAddress address;
    std::uint64_t size = 0;
    bool write = false;
    std::span<const char> bytes; // empty: it has none in the file
};

// Of what the file has where, as linked.
class LinkedBytes {
public:
    explicit LinkedBytes(Elf *elf);
    void read_relocations(Elf *elf); // which of other languages' files are many
    const GoSection *section(std::string_view name) const {
        const auto found = std::ranges::find(sections_, name, &GoSection::name);
        return found == sections_.end() ? nullptr : &*found;
    }
    // What the loader leaves there, but for where the file is loaded: a relocation's addend, or the file's own bytes.
    std::optional<std::uint64_t> word(LinkAddress address) const;
    std::span<const char> from(LinkAddress address) const; // to the end of its section
    const std::vector<GoSection> &sections() const { return sections_; }
    const std::unordered_map<std::uint64_t, std::uint64_t> &relocations() const { return relocations_; }

private:
    std::vector<GoSection> sections_;
    std::unordered_map<std::uint64_t, std::uint64_t> relocations_; // R_X86_64_RELATIVE
};

LinkedBytes::LinkedBytes(Elf *elf) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        if (!gelf_getshdr(scn, &header) || !(header.sh_flags & SHF_ALLOC) || (header.sh_flags & SHF_COMPRESSED))
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        GoSection section{
            name ? name : "", LinkAddress(header.sh_addr), header.sh_size, (header.sh_flags & SHF_WRITE) != 0, {}};
        if (Elf_Data *raw = header.sh_type == SHT_PROGBITS ? elf_rawdata(scn, nullptr) : nullptr; raw && raw->d_buf)
            section.bytes = {static_cast<const char *>(raw->d_buf), raw->d_size};
        sections_.push_back(section);
    }
}

void LinkedBytes::read_relocations(Elf *elf) {
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_RELA || !(header.sh_flags & SHF_ALLOC))
            continue;
        Elf_Data *data = elf_getdata(scn, nullptr);
        for (std::size_t i = 0; data && i < data->d_size / sizeof(Elf64_Rela); ++i) {
            GElf_Rela rela;
            if (relocations_.size() >= go_relocations_max || !gelf_getrela(data, static_cast<int>(i), &rela))
                break;
            if (GELF_R_TYPE(rela.r_info) == R_X86_64_RELATIVE)
                relocations_[rela.r_offset] = static_cast<std::uint64_t>(rela.r_addend);
        }
    }
}

std::span<const char> LinkedBytes::from(LinkAddress address) const {
    for (const GoSection &section : sections_)
        if (address >= section.address && address - section.address < section.bytes.size())
            return section.bytes.subspan(address - section.address);
    return {};
}

std::optional<std::uint64_t> LinkedBytes::word(LinkAddress address) const {
    if (const auto found = relocations_.find(address.value); found != relocations_.end())
        return found->second;
    const std::span<const char> bytes = from(address);
    std::uint64_t value;
    if (bytes.size() < sizeof value)
        return std::nullopt;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

// runtime.firstmoduledata begins with the table's address and that of its names; 0: not found.  Nothing else has both.
LinkAddress module_data(const LinkedBytes &linked, const GoTable &table, LinkAddress at) {
    const auto is_it = [&](LinkAddress address) {
        return linked.word(address) == at.value && linked.word(address + 8) == table.names_at(at).value;
    };
    for (const auto &[offset, addend] : linked.relocations())
        if (addend == at.value && is_it(LinkAddress(offset)))
            return LinkAddress(offset);
    if (!linked.relocations().empty())
        return {};
    for (const GoSection &section : linked.sections())
        for (std::size_t i = 0; section.write && i + 16 <= section.bytes.size(); i += 8)
            if (std::memcmp(section.bytes.data() + i, &at.value, sizeof at.value) == 0 && is_it(section.address + i))
                return section.address + i;
    return {};
}

} // namespace

std::optional<GoTable> go_table_of(Elf *elf) {
    LinkedBytes linked(elf);
    const GoSection *section = linked.section(".gopclntab");
    if (!section)
        section = linked.section(".data.rel.ro.gopclntab"); // of a PIE
    auto table = section ? GoTable::parse(section->bytes) : std::nullopt;
    if (!table)
        return std::nullopt;
    linked.read_relocations(elf);
    if (table->needs_text() && table->text() == LinkAddress()) {
        if (const auto text = linked.word(section->address + text_in_header); text && *text != 0)
            table->set_text(LinkAddress(*text));
    }
    // A copy that was kept has no relocations.  Where Go has linked the program itself, its code begins with .text:
    // that is so if the program's entry then has the name that it has.
    if (table->needs_text() && table->text() == LinkAddress()) {
        GElf_Ehdr header;
        const GoSection *text = linked.section(".text");
        if (!text || !gelf_getehdr(elf, &header))
            return std::nullopt;
        table->set_text(text->address);
        const auto entry = table->function_at(LinkAddress(header.e_entry));
        if (!entry || entry->entry.value != header.e_entry || !entry->name.starts_with("_rt0_amd64"))
            return std::nullopt;
    }
    const std::size_t trees_at = table->module_trees_at();
    if (const LinkAddress data = module_data(linked, *table, section->address); trees_at && data != LinkAddress()) {
        // Of the layout that is expected it is only where this field, which stands between others, is right as well.
        constexpr std::size_t text_at = 176;
        if (linked.word(data + text_at) == table->text().value)
            if (const auto trees = linked.word(data + trees_at))
                table->set_trees(linked.from(LinkAddress(*trees)));
    }
    return table;
}

} // namespace incident::postmortem
