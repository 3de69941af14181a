// Describes types of debug info as C writes them.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <string>

namespace incident::postmortem {

struct TypeDescription {
    std::string name; // "const struct node *"; "" unknown
    std::optional<std::uint64_t> bytes;
    bool is_pointer = false; // or a reference
    bool is_number = false;  // a pointer, an integer, an enumeration, a bool, a character
    bool is_real = false;    // floating point: not in a general register
};

// The type in the DIE's DW_AT_type; "void" if it has none.
TypeDescription type_of(Dwarf_Die *die);

} // namespace incident::postmortem
