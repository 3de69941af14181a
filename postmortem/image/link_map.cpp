#include "postmortem/image/link_map.h"

#include "postmortem/image/elf_layout.h"
#include "postmortem/image/object_bytes.h"

#include <algorithm>
#include <cstring>
#include <link.h>

namespace incident::postmortem {

namespace {

// From here up: below lies what nothing may map (vm.mmap_min_addr, 64 KiB by default).
constexpr UserAddress lowest(0x10000);
constexpr std::uint64_t page = page_size;
constexpr UserAddress user_end(0x7ffffffff000); // TASK_SIZE of 47-bit address spaces, the usual ones

// struct r_debug up to r_ldbase, and the public part of struct link_map (<link.h>).
struct Head {
    std::int32_t version, padding;
    std::uint64_t map, brk;
    std::int32_t state, padding2;
    std::uint64_t loader;
};
struct Node {
    std::uint64_t bias, name, dynamic, next, previous;
};
static_assert(sizeof(Head) == sizeof(r_debug) && offsetof(Head, loader) == offsetof(r_debug, r_ldbase));
static_assert(sizeof(Node) == sizeof(link_map) && offsetof(Node, previous) == offsetof(link_map, l_prev));

// The entries ld.so turns into addresses (glibc, elf/get-dynamic-info.h, ADJUST_DYN_INFO).
bool is_address(std::int64_t tag) {
    switch (tag) {
    case DT_HASH:
    case DT_PLTGOT:
    case DT_STRTAB:
    case DT_SYMTAB:
    case DT_RELA:
    case DT_REL:
    case DT_JMPREL:
    case DT_VERSYM:
    case DT_GNU_HASH:
        return true;
    default:
        return false;
    }
}

// entry(offset, Elf64_Dyn) for each up to DT_NULL; until it says false.
template <typename Entry> void each_dynamic(std::string_view dynamic, Entry entry) {
    Elf64_Dyn now;
    for (std::size_t at = 0; at + sizeof now <= dynamic.size(); at += sizeof now) {
        std::memcpy(&now, dynamic.data() + at, sizeof now);
        if (now.d_tag == DT_NULL || !entry(at, now))
            break;
    }
}

} // namespace

// The r_debug and the names in front; then a page for each node, of which only the node's public part
// is written.  What libthread_db looks for behind it (l_tls_modid) is not known, and must not seem to
// be: it would take what lies there for a thread-local variable's place.
std::uint64_t link_map_size(const std::vector<LinkMapEntry> &entries) {
    std::uint64_t size = sizeof(Head);
    for (const LinkMapEntry &entry : entries)
        size += entry.name.size() + 1;
    return ((size + page - 1) & ~(page - 1)) + entries.size() * page;
}

LinkMap make_link_map(const std::vector<LinkMapEntry> &entries, UserAddress at, UserAddress loader) {
    const UserAddress nodes = at + link_map_size(entries) - entries.size() * page;
    LinkMap map;
    map.debug_address = at;
    // version 1: what every reader knows.  r_brk, where debuggers of a living process put a breakpoint, stays 0.
    const Head head{1, 0, entries.empty() ? 0 : nodes.value, 0, r_debug::RT_CONSISTENT, 0, loader.value};
    map.debug = bytes_of(head);
    MadeMemory front{at, map.debug};
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const UserAddress own = nodes + i * page;
        const Node node{entries[i].bias.value, (at + front.bytes.size()).value, entries[i].dynamic.value,
                        i + 1 < entries.size() ? (own + page).value : 0, i > 0 ? (own - page).value : 0};
        front.bytes.append(entries[i].name).push_back('\0');
        map.pieces.push_back({own, bytes_of(node)});
    }
    map.pieces.push_back(std::move(front));
    return map;
}

std::optional<UserAddress> unused_address(const capture::Maps &maps, const ImageMemory &memory,
                                          std::vector<AddressRange> taken, std::uint64_t size) {
    for (const capture::Mapping &mapping : maps.all())
        taken.push_back({mapping.start, mapping.end});
    for (const auto &[address, bytes] : memory.pieces())
        taken.push_back({UserAddress(address), UserAddress(address + bytes.size())});
    std::ranges::sort(taken, {}, &AddressRange::start);
    UserAddress at = lowest;
    for (const AddressRange &range : taken) {
        // a page between, so that nothing seems to belong to its neighbour
        if (range.start > at && range.start - at >= size + page)
            break;
        if (range.end >= user_end)
            return std::nullopt;
        at = std::max(at, UserAddress((range.end.value + 2 * page - 1) & ~(page - 1)));
    }
    return at < user_end && size < user_end - at ? std::optional(at) : std::nullopt;
}

std::string relocated_dynamic(std::string dynamic, LoadBias bias) {
    const std::string original = dynamic;
    each_dynamic(original, [&](std::size_t at, Elf64_Dyn entry) {
        if (is_address(entry.d_tag)) {
            entry.d_un.d_ptr = (LinkAddress(entry.d_un.d_ptr) + bias).value;
            std::memcpy(dynamic.data() + at, &entry, sizeof entry);
        }
        return true;
    });
    return dynamic;
}

std::optional<std::size_t> debug_entry(std::string_view dynamic) {
    std::optional<std::size_t> found;
    each_dynamic(dynamic, [&](std::size_t at, const Elf64_Dyn &entry) {
        if (entry.d_tag == DT_DEBUG)
            found = at + offsetof(Elf64_Dyn, d_un);
        return !found;
    });
    return found;
}

} // namespace incident::postmortem
