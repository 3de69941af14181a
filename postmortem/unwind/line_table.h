// Finds an address's line in the source.
#pragma once

#include "capture/os/address.h"

#include <elfutils/libdw.h>

#include <cstdint>
#include <string>

namespace incident::postmortem {

struct SourceLine {
    std::string file; // "" unknown
    unsigned line = 0, column = 0;
};

// Chooses, as gdb does, among the rows of the line table whose address is not above this one.
SourceLine source_line(Dwarf_Die &unit, capture::LinkAddress linked);
// A file of the unit's line table by its number (DW_AT_decl_file, DW_AT_call_file); "" none.
std::string file_of_unit(Dwarf_Die &unit, std::uint64_t number);

} // namespace incident::postmortem
