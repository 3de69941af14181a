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
// TASK_SIZE of 47-bit address spaces, the usual ones, and IA32_PAGE_OFFSET (arch/x86/include/asm/page_64_types.h).
constexpr UserAddress user_end(Isa isa) {
    return UserAddress(isa == Isa::i386 ? 0xffffe000 : 0x7ffffffff000);
}

// struct r_debug up to r_ldbase, and the public part of struct link_map (<link.h>).
// Each member takes a word of the process, the two numbers as well.
template <std::size_t N> std::string words_of(const std::uint64_t (&words)[N], Isa isa) {
    std::string bytes;
    for (const std::uint64_t word : words)
        bytes += word_of(word, isa);
    return bytes;
}
constexpr std::size_t head_words = 5, node_words = 5;
static_assert(head_words * 8 == sizeof(r_debug) && offsetof(r_debug, r_ldbase) == 4 * 8);
static_assert(node_words * 8 == sizeof(link_map) && offsetof(link_map, l_prev) == 4 * 8);

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

struct DynamicEntry {
    std::int64_t tag = 0;
    std::uint64_t value = 0;
    std::size_t value_at = 0; // its offset
};

// entry(DynamicEntry) for each up to DT_NULL; until it says false.
template <typename Dyn, typename Entry> void each_entry(std::string_view dynamic, Entry entry) {
    Dyn now;
    for (std::size_t at = 0; at + sizeof now <= dynamic.size(); at += sizeof now) {
        std::memcpy(&now, dynamic.data() + at, sizeof now);
        if (now.d_tag == DT_NULL || !entry(DynamicEntry{now.d_tag, now.d_un.d_val, at + offsetof(Dyn, d_un)}))
            break;
    }
}
template <typename Entry> void each_dynamic(std::string_view dynamic, Isa isa, Entry entry) {
    isa == Isa::i386 ? each_entry<Elf32_Dyn>(dynamic, entry) : each_entry<Elf64_Dyn>(dynamic, entry);
}

} // namespace

// The r_debug and the names in front; then a page for each node, of which only the node's public part
// is written.  What libthread_db looks for behind it (l_tls_modid) is not known, and must not seem to
// be: it would take what lies there for a thread-local variable's place.
std::uint64_t link_map_size(const std::vector<LinkMapEntry> &entries, Isa isa) {
    std::uint64_t size = head_words * capture::word_bytes(isa);
    for (const LinkMapEntry &entry : entries)
        size += entry.name.size() + 1;
    return ((size + page - 1) & ~(page - 1)) + entries.size() * page;
}

LinkMap make_link_map(const std::vector<LinkMapEntry> &entries, UserAddress at, UserAddress loader, Isa isa) {
    const UserAddress nodes = at + link_map_size(entries, isa) - entries.size() * page;
    LinkMap map;
    map.debug_address = at;
    // version 1: what every reader knows.  r_brk, where debuggers of a living process put a breakpoint, stays 0.
    map.debug = words_of({1, entries.empty() ? 0 : nodes.value, 0, r_debug::RT_CONSISTENT, loader.value}, isa);
    MadeMemory front{at, map.debug};
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const UserAddress own = nodes + i * page;
        const std::uint64_t node[node_words] = {
            entries[i].bias.value, (at + front.bytes.size()).value, entries[i].dynamic.value,
            i + 1 < entries.size() ? (own + page).value : 0, i > 0 ? (own - page).value : 0};
        front.bytes.append(entries[i].name).push_back('\0');
        map.pieces.push_back({own, words_of(node, isa)});
    }
    map.pieces.push_back(std::move(front));
    return map;
}

std::optional<UserAddress> unused_address(const capture::Maps &maps, const ImageMemory &memory,
                                          std::vector<AddressRange> taken, std::uint64_t size, Isa isa) {
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
        if (range.end >= user_end(isa))
            return std::nullopt;
        at = std::max(at, UserAddress((range.end.value + 2 * page - 1) & ~(page - 1)));
    }
    return at < user_end(isa) && size < user_end(isa) - at ? std::optional(at) : std::nullopt;
}

std::string relocated_dynamic(std::string dynamic, LoadBias bias, Isa isa) {
    const std::string original = dynamic;
    each_dynamic(original, isa, [&](const DynamicEntry &entry) {
        if (is_address(entry.tag)) {
            const std::string moved = word_of((LinkAddress(entry.value) + bias).value, isa);
            dynamic.replace(entry.value_at, moved.size(), moved);
        }
        return true;
    });
    return dynamic;
}

std::optional<std::size_t> debug_entry(std::string_view dynamic, Isa isa) {
    std::optional<std::size_t> found;
    each_dynamic(dynamic, isa, [&](const DynamicEntry &entry) {
        if (entry.tag == DT_DEBUG)
            found = entry.value_at;
        return !found;
    });
    return found;
}

} // namespace incident::postmortem
