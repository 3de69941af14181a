// Finds Go's table of functions in an ELF file, and what it refers to outside of itself.
#pragma once

#include "postmortem/unwind/go_table.h"

#include <libelf.h>

namespace incident::postmortem {

// Not set: the file has none, or one that cannot be read with certainty. `elf` must outlive it.
std::optional<GoTable> go_table_of(Elf *elf);

} // namespace incident::postmortem
