// Names stubs of the procedure linkage table, which have no symbols.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <string>

namespace incident::postmortem {

// The linker's name of the function that the stub at a linked address jumps to; "" if there is none.
std::string called_by_plt(Elf *elf, std::uint64_t linked);

} // namespace incident::postmortem
