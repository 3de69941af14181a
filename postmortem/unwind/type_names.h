// Types of debug info as C would write them.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <string>

namespace incident::postmortem {

struct TypeFacts {
    std::string name; // "const struct node *"; "" unknown
    std::optional<std::uint64_t> bytes;
    bool is_pointer = false; // or a reference
    bool is_number = false;  // a pointer, an integer, an enumeration, a bool, a character
    bool is_real = false;    // floating point: not in a general register
};

// Of the DIE's DW_AT_type; "void" where it has none.
TypeFacts type_of(Dwarf_Die *die);

} // namespace incident::postmortem
