// Functions that are missing on a stack because they jumped to what they called last.  Debug info says
// which calls those are; where only one chain of them leads from what the caller called to where the
// callee is, it is shown, as gdb does (gdb/dwarf2/loc.c, call_site_find_chain).
#pragma once

#include "postmortem/unwind/module_set.h"

#include <cstdint>
#include <vector>

namespace incident::postmortem {

// return_address: in the caller.  callee: an address within the function found below it on the stack.
// Addresses behind the jumps, innermost first; empty where there is none, or which is not certain.
std::vector<std::uint64_t> tail_calls(ModuleSet &modules, std::uint64_t return_address, std::uint64_t callee);

} // namespace incident::postmortem
