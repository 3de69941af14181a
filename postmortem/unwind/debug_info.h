// The debug information of a module, and the places of an address in it.
#pragma once

#include "postmortem/unwind/debug_files.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace incident::postmortem {

// An address's place in a function, or in one inlined into another.
struct Place {
    std::string name;        // as names.h makes it; "" none
    std::uint64_t entry = 0; // where the function begins, as linked
    bool inlined = false;
    std::string file; // "" unknown
    unsigned line = 0, column = 0;
    Dwarf_Die die{};        // DW_TAG_subprogram or DW_TAG_inlined_subroutine
    bool assembler = false; // it has no parameters that could be known
};

class DebugInfo {
public:
    // file: what find_debug_file found for module.
    DebugInfo(Elf *module, DebugFile file, const std::string &root, std::vector<std::string> &notes);

    const std::string &where() const { return file_.where; }
    Elf *elf() const { return file_.elf.get(); } // null: the module's own
    bool has_dwarf() const { return dwarf_ != nullptr; }

    // .debug_frame's rules for a linked address; null where it has none.
    FrameHandle debug_frame(std::uint64_t linked);
    // Innermost first; empty where no function is described there.  The place in the innermost is the
    // line table's, in those it is inlined into that of the call.
    const std::vector<Place> &places(std::uint64_t linked);
    // The unit and the function (not inlined) an address lies in; false where none.
    bool function_at(std::uint64_t linked, Dwarf_Die &unit, Dwarf_Die &function);

private:
    struct UnitRange {
        std::uint64_t low = 0, high = 0;
        Dwarf_Off unit = 0;
    };
    struct Function {
        std::uint64_t low = 0, high = 0;
        Dwarf_Die die{};
    };
    bool unit_at(std::uint64_t linked, Dwarf_Die &unit);
    void index_units();
    const std::vector<Function> &functions_of(Dwarf_Die &unit);
    std::vector<Place> find_places(std::uint64_t linked);

    DebugFile file_, alternate_file_;
    DwarfHandle alternate_, dwarf_; // dwarf_ refers to alternate_
    bool units_indexed_ = false;
    std::vector<UnitRange> units_;
    std::map<const void *, std::vector<Function>> functions_; // by where the unit's DIE is
    std::map<std::uint64_t, std::vector<Place>> places_;      // those asked for before
};

// The DIE's DW_AT_linkage_name made readable, else its DW_AT_name within its namespaces and classes.
std::string name_of_die(Dwarf_Die *die);
// Where a function begins, as linked: of one in several parts the first that is listed, as gdb takes it; 0 unknown.
std::uint64_t entry_of(Dwarf_Die *function);
// An attribute that is an unsigned number, of the DIE or of what it is an instance of.
std::uint64_t number_of(Dwarf_Die *die, unsigned attribute);

} // namespace incident::postmortem
