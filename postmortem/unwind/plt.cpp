#include "postmortem/unwind/plt.h"

#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace incident::postmortem {

namespace {

using capture::LinkAddress;

constexpr std::size_t relocations_max = 4u << 20; // looked at in one file
constexpr std::uint64_t stub_max = 16;            // bytes

// Where i386's %ebx points in a stub: _GLOBAL_OFFSET_TABLE_, the start of .got.plt, and of .got where that is not.
std::optional<LinkAddress> global_offset_table(Elf *elf) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return std::nullopt;
    std::optional<LinkAddress> found;
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(scn, &header) ? elf_strptr(elf, names, header.sh_name) : nullptr;
        if (name && (name == std::string_view(".got.plt") || (name == std::string_view(".got") && !found)))
            found = LinkAddress(header.sh_addr);
    }
    return found;
}

// The slot of the global offset table a stub jumps through, wherever in it that stands: jmp *disp32(%rip), of i386
// jmp *address or jmp *disp32(%ebx).
std::optional<LinkAddress> slot_of(Elf *elf, const unsigned char *stub, std::uint64_t bytes, LinkAddress address) {
    const bool narrow = gelf_getclass(elf) == ELFCLASS32;
    for (std::uint64_t at = 0; at + 6 <= bytes; ++at) {
        if (stub[at] != 0xff || (stub[at + 1] != 0x25 && !(narrow && stub[at + 1] == 0xa3)))
            continue;
        std::int32_t displacement;
        std::memcpy(&displacement, stub + at + 2, sizeof displacement);
        if (!narrow)
            return address + at + 6 + static_cast<std::uint64_t>(std::int64_t{displacement});
        if (stub[at + 1] == 0x25)
            return LinkAddress(static_cast<std::uint32_t>(displacement));
        const auto table = global_offset_table(elf);
        if (!table)
            return std::nullopt;
        return LinkAddress(static_cast<std::uint32_t>(table->value + static_cast<std::uint32_t>(displacement)));
    }
    return std::nullopt;
}

std::optional<LinkAddress> slot_of_stub_at(Elf *elf, LinkAddress linked) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return std::nullopt;
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_PROGBITS || linked < LinkAddress(header.sh_addr) ||
            linked - LinkAddress(header.sh_addr) >= header.sh_size)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (!name || !std::string_view(name).starts_with(".plt"))
            return std::nullopt;
        const Elf_Data *data = elf_rawdata(scn, nullptr);
        const std::uint64_t stub = header.sh_entsize == 8 ? 8 : stub_max;
        const std::uint64_t begin = (linked - LinkAddress(header.sh_addr)) / stub * stub;
        if (!data || !data->d_buf || begin >= data->d_size)
            return std::nullopt;
        return slot_of(elf, static_cast<const unsigned char *>(data->d_buf) + begin,
                       std::min<std::uint64_t>(stub, data->d_size - begin), LinkAddress(header.sh_addr + begin));
    }
    return std::nullopt;
}

std::string name_of_symbol(Elf *elf, std::size_t table, std::size_t index) {
    Elf_Scn *scn = elf_getscn(elf, table);
    GElf_Shdr header;
    GElf_Sym symbol;
    Elf_Data *data = scn ? elf_getdata(scn, nullptr) : nullptr;
    if (!data || !gelf_getshdr(scn, &header) || index > INT32_MAX ||
        !gelf_getsym(data, static_cast<int>(index), &symbol))
        return "";
    const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
    return name ? name : "";
}

} // namespace

std::string called_by_plt(Elf *elf, LinkAddress linked) {
    const auto slot = slot_of_stub_at(elf, linked);
    if (!slot)
        return "";
    std::size_t left = relocations_max;
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        if (!gelf_getshdr(scn, &header) || (header.sh_type != SHT_RELA && header.sh_type != SHT_REL) ||
            header.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(scn, nullptr);
        const std::size_t count = data ? data->d_size / header.sh_entsize : 0;
        for (std::size_t i = 0; i < count && i <= INT32_MAX && left > 0; ++i, --left) {
            // libelf gives those of a 32-bit file the widths of a 64-bit one
            GElf_Rela with_addend;
            GElf_Rel without;
            if (header.sh_type == SHT_RELA) {
                if (!gelf_getrela(data, static_cast<int>(i), &with_addend))
                    break;
                without = {with_addend.r_offset, with_addend.r_info};
            } else if (!gelf_getrel(data, static_cast<int>(i), &without)) {
                break;
            }
            if (LinkAddress(without.r_offset) == *slot && GELF_R_SYM(without.r_info) != 0)
                return name_of_symbol(elf, header.sh_link, GELF_R_SYM(without.r_info));
        }
    }
    return "";
}

} // namespace incident::postmortem
