// The list of loaded files that a dynamic linker keeps for debuggers (struct r_debug and struct
// link_map of <link.h>, found through DT_DEBUG), made anew: the real one is scattered over memory
// nobody captured, while all it says is known from the mappings.
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

// What a debugger follows: the r_debug, and the list it points at.
struct LinkMap {
    std::string debug; // struct r_debug; to be written to debug_address, or wherever a program has its own
    std::uint64_t debug_address = 0;
    std::vector<MadeMemory> pieces; // the debug one among them
};

std::uint64_t link_map_size(const std::vector<LinkMapEntry> &entries);
// For `link_map_size` unused bytes at address `at`, a page's start.  loader: where ld.so is; 0 none.
LinkMap make_link_map(const std::vector<LinkMapEntry> &entries, std::uint64_t at, std::uint64_t loader);

// The lowest page with `size` bytes of which nothing is mapped, known, or in `taken`.
struct AddressRange {
    std::uint64_t start = 0, end = 0;
};
std::optional<std::uint64_t> unused_address(const capture::Maps &maps, const ImageMemory &memory,
                                            std::vector<AddressRange> taken, std::uint64_t size);

// The .dynamic of a program, as its file has it, as ld.so leaves it in memory: addresses moved by the bias.
std::string relocated_dynamic(std::string dynamic, std::uint64_t bias);
// Where in it DT_DEBUG's value stands; nothing: it has none.
std::optional<std::size_t> debug_entry(std::string_view dynamic);

} // namespace incident::postmortem
