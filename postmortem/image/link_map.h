// Rebuilds the list of loaded files that a dynamic linker keeps for debuggers (struct r_debug and struct link_map of
// <link.h>, found through DT_DEBUG). The real list is scattered over memory that nobody captured, but the mappings say
// the same.
#pragma once

#include "capture/os/address.h"
#include "capture/os/isa.h"
#include "capture/os/maps.h"
#include "postmortem/image/image_memory.h"
#include "postmortem/image/made_memory.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

struct LinkMapEntry {
    std::string name;             // l_name: "" for the executable
    capture::LoadBias bias;       // l_addr
    capture::UserAddress dynamic; // l_ld: of its .dynamic
};

// The structures that a debugger follows: the r_debug, and the list that it points at.
struct LinkMap {
    std::string debug; // struct r_debug; to be written to debug_address, or to the place of the program's own
    capture::UserAddress debug_address;
    std::vector<MadeMemory> pieces; // the debug one among them
};

std::uint64_t link_map_size(const std::vector<LinkMapEntry> &entries, capture::Isa isa);
// Makes the list for `link_map_size` unused bytes at `at`, the start of a page. `loader` is ld.so's address; 0 none.
LinkMap make_link_map(const std::vector<LinkMapEntry> &entries, capture::UserAddress at, capture::UserAddress loader,
                      capture::Isa isa);

// The lowest page with `size` bytes that are not mapped, not known, and not in `taken`.
struct AddressRange {
    capture::UserAddress start, end;
};
std::optional<capture::UserAddress> unused_address(const capture::Maps &maps, const ImageMemory &memory,
                                                   std::vector<AddressRange> taken, std::uint64_t size,
                                                   capture::Isa isa = capture::Isa::x86_64);

// Turns the .dynamic of a program's file into what ld.so leaves in memory: addresses are moved by the bias.
std::string relocated_dynamic(std::string dynamic, capture::LoadBias bias, capture::Isa isa = capture::Isa::x86_64);
// The offset of DT_DEBUG's value in it; not set if it has none.
std::optional<std::size_t> debug_entry(std::string_view dynamic, capture::Isa isa = capture::Isa::x86_64);

} // namespace incident::postmortem
