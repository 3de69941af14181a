// Rebuilds the list of loaded files that a dynamic linker keeps for debuggers (struct r_debug and struct link_map of
// <link.h>, found through DT_DEBUG). The real list is scattered over memory that nobody captured, but the mappings say
// the same.
#pragma once

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
    std::string name;          // l_name: "" for the executable
    std::uint64_t bias = 0;    // l_addr
    std::uint64_t dynamic = 0; // l_ld: address of its .dynamic
};

// The structures that a debugger follows: the r_debug, and the list that it points at.
struct LinkMap {
    std::string debug; // struct r_debug; to be written to debug_address, or to the place of the program's own
    std::uint64_t debug_address = 0;
    std::vector<MadeMemory> pieces; // the debug one among them
};

std::uint64_t link_map_size(const std::vector<LinkMapEntry> &entries);
// Makes the list for `link_map_size` unused bytes at `at`, the start of a page. `loader` is ld.so's address; 0 none.
LinkMap make_link_map(const std::vector<LinkMapEntry> &entries, std::uint64_t at, std::uint64_t loader);

// The lowest page with `size` bytes that are not mapped, not known, and not in `taken`.
struct AddressRange {
    std::uint64_t start = 0, end = 0;
};
std::optional<std::uint64_t> unused_address(const capture::Maps &maps, const ImageMemory &memory,
                                            std::vector<AddressRange> taken, std::uint64_t size);

// Turns the .dynamic of a program's file into what ld.so leaves in memory: addresses are moved by the bias.
std::string relocated_dynamic(std::string dynamic, std::uint64_t bias);
// The offset of DT_DEBUG's value in it; not set if it has none.
std::optional<std::size_t> debug_entry(std::string_view dynamic);

} // namespace incident::postmortem
