// Owners of libelf's and libdw's handles.  Internal to unwind/.
#pragma once

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdlib>
#include <memory>

namespace incident::postmortem {

struct ElfEnd {
    void operator()(Elf *elf) const { elf_end(elf); }
};
struct DwarfEnd {
    void operator()(Dwarf *dwarf) const { dwarf_end(dwarf); }
};
struct CfiEnd {
    void operator()(Dwarf_CFI *cfi) const { dwarf_cfi_end(cfi); } // only for the result of dwarf_getcfi_elf
};
struct Free {
    void operator()(void *memory) const { std::free(memory); } // NOLINT: libdw's own are malloc'ed
};

using ElfHandle = std::unique_ptr<Elf, ElfEnd>;
using DwarfHandle = std::unique_ptr<Dwarf, DwarfEnd>;
using CfiHandle = std::unique_ptr<Dwarf_CFI, CfiEnd>;
using FrameHandle = std::unique_ptr<Dwarf_Frame, Free>;

} // namespace incident::postmortem
