#include "daemon/probe/elf_image.h"
#include "daemon/probe/probe_elf.h"
#include "daemon/probe/probe_words.h"

#include <fmt/format.h>

#include <cstring>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::size_t names_max = 4096; // kept to say what there is
constexpr std::size_t usdt_sites_max = 1024;
constexpr std::size_t arguments_max = 512; // bytes kept of an argument specification

} // namespace

Result<std::vector<ProbeSite>> find_usdt(int fd, std::string_view provider, std::string_view name,
                                         const UprobeAbilities &abilities) {
    const auto image = ElfImage::read(fd);
    if (!image)
        return fail(image.error());
    // What DTrace calls query-start is query__start in C.
    std::string in_c(name);
    for (std::size_t dash = 0; (dash = in_c.find('-', dash)) != std::string::npos;)
        in_c.replace(dash, 1, "__");
    // Addresses in notes are those of link time; prelinking moves .stapsdt.base with the rest.
    const LinkAddress base_now = image->section_address(".stapsdt.base").value_or(LinkAddress());
    std::vector<ProbeSite> sites;
    std::set<std::string> known;
    std::string broken;
    image->walk_notes(".note.stapsdt", [&](const ElfNote &note) {
        constexpr std::uint32_t stapsdt_v3 = 3; // NT_STAPSDT
        std::uint64_t address[3];               // of the probe, of .stapsdt.base, of the semaphore
        if (note.name != "stapsdt" || note.type != stapsdt_v3 || note.description.size() < sizeof(address))
            return;
        std::memcpy(address, note.description.data(), sizeof(address));
        std::string_view strings = note.description.substr(sizeof(address));
        std::string_view field[3]; // provider, name, arguments
        for (auto &text : field) {
            const std::size_t end = strings.find('\0');
            if (end == std::string_view::npos)
                return;
            text = strings.substr(0, end);
            strings.remove_prefix(end + 1);
        }
        if (field[0] != provider || (field[1] != name && field[1] != in_c)) {
            if (known.size() < names_max)
                known.insert(fmt::format("{}:{}", field[0].substr(0, 100), field[1].substr(0, 100)));
            return;
        }
        if (sites.size() >= usdt_sites_max)
            return;
        const std::uint64_t moved = base_now.value ? base_now - LinkAddress(address[1]) : 0;
        const LinkAddress place = LinkAddress(address[0]) + moved;
        ProbeSite site;
        const auto offset = image->file_offset(place, true);
        const auto semaphore =
            address[2] ? image->file_offset(LinkAddress(address[2]) + moved, false) : std::optional(FileOffset());
        if (!offset || !semaphore) {
            broken = "its note points outside the program";
            return;
        }
        site.offset = *offset;
        site.semaphore = *semaphore;
        site.arguments = field[2].substr(0, arguments_max);
        const auto code = image->bytes(place, 16);
        site.price = price_of(code, abilities);
        if (site.price != ProbePrice::Emulated)
            site.warning = price_warning(site.price);
        else if (is_nop5(code) && abilities.long_nops)
            site.warning = "stands on a five-byte nop, which this kernel turns into a call: where the function keeps "
                           "data below its stack pointer, that is overwritten";
        sites.push_back(std::move(site));
    });
    if (!sites.empty())
        return sites;
    if (!broken.empty())
        return fail(broken);
    if (known.empty())
        return fail("no such static probe: the file has none (.note.stapsdt)");
    return fail("no such static probe; there are: " + list_names({known.begin(), known.end()}));
}

} // namespace incident::daemon
