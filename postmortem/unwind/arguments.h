// A function's arguments as its debug info locates them at one address.
#pragma once

#include "postmortem/unwind/stack.h"

#include <vector>

namespace incident::postmortem {

// Of the function of one shown frame.  Values only where their location can be evaluated with the
// frame's registers and captured memory; else Argument::how says why not.
std::vector<Argument> arguments_of(ModuleSet &modules, const NamedStack &stack, std::size_t shown);

// The first frame whose function has debug info that describes parameters; nothing where there is none.
std::optional<std::size_t> frame_with_debug_info(const NamedStack &stack);

} // namespace incident::postmortem
