// The debug information of a module; finds the places of an address.
#pragma once

#include "capture/os/address.h"
#include "postmortem/unwind/debug_files.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace incident::postmortem {

using capture::LinkAddress;

// The place of an address in a function, or in a function that is inlined there.
struct Place {
    std::string name;  // in the form of names.h; "" none
    LinkAddress entry; // where the function begins; 0 unknown
    bool inlined = false;
    std::string file; // "" unknown
    unsigned line = 0, column = 0;
    Dwarf_Die die{};        // DW_TAG_subprogram or DW_TAG_inlined_subroutine
    bool assembler = false; // written in assembler: parameters cannot be known
};

class DebugInfo {
public:
    // `file` is find_debug_file's result for `module`.
    DebugInfo(Elf *module, DebugFile file, const std::string &root, std::vector<std::string> &notes);

    const std::string &where() const { return file_.where; }
    Elf *elf() const { return file_.elf.get(); } // null: the module itself
    bool has_dwarf() const { return dwarf_ != nullptr; }

    // The rules of .debug_frame for an address; null if it has none.
    FrameHandle debug_frame(LinkAddress linked);
    // The places of an address, innermost first; empty if no function is described there. The innermost one has its
    // line from the line table; the functions around it have the line of the inlined call.
    const std::vector<Place> &places(LinkAddress linked);
    // The unit and the function (not inlined) that an address lies in; false if there is none.
    bool function_at(LinkAddress linked, Dwarf_Die &unit, Dwarf_Die &function);

private:
    struct UnitRange {
        LinkAddress low, high;
        Dwarf_Off unit = 0;
    };
    struct Function {
        LinkAddress low, high;
        Dwarf_Die die{};
    };
    bool unit_at(LinkAddress linked, Dwarf_Die &unit);
    void index_units();
    const std::vector<Function> &functions_of(Dwarf_Die &unit);
    std::vector<Place> find_places(LinkAddress linked);

    DebugFile file_, alternate_file_;
    DwarfHandle alternate_, dwarf_; // dwarf_ refers to alternate_
    bool units_indexed_ = false;
    std::vector<UnitRange> units_;
    std::map<const void *, std::vector<Function>> functions_; // by the address of the unit's DIE
    std::map<LinkAddress, std::vector<Place>> places_;        // those that were looked up before
};

// The demangled DW_AT_linkage_name of the DIE; without one, its DW_AT_name with namespaces and classes.
std::string name_of_die(Dwarf_Die *die);
// Where a function begins; 0 unknown. For a function in several parts it is the first part
// listed, as in gdb.
LinkAddress entry_of(Dwarf_Die *function);
// An unsigned attribute of the DIE, or of the DIE that it is an instance of.
std::uint64_t number_of(Dwarf_Die *die, unsigned attribute);

} // namespace incident::postmortem
