// Finds functions that are missing on a stack because their last call was a jump (a tail call). Debug info lists such
// calls. If only one chain of them leads from the function that the caller called to the callee, the chain is shown, as
// in gdb (gdb/dwarf2/loc.c, call_site_find_chain).
#pragma once

#include "postmortem/unwind/module_set.h"

#include <vector>

namespace incident::postmortem {

// `return_address` is in the caller. `callee` is an address in the function below it on the stack. Returns the
// addresses after the jumps, innermost first; empty if there is no chain or more than one.
std::vector<UserAddress> tail_calls(ModuleSet &modules, UserAddress return_address, UserAddress callee);

} // namespace incident::postmortem
