// Names stubs of the procedure linkage table, which have no symbols.
#pragma once

#include "capture/os/address.h"

#include <libelf.h>

#include <string>

namespace incident::postmortem {

// The linker's name of the function that the stub at an address jumps to; "" if there is none.
std::string called_by_plt(Elf *elf, capture::LinkAddress linked);

} // namespace incident::postmortem
