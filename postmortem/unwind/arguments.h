// Finds a function's arguments with its debug info at one address.
#pragma once

#include "postmortem/unwind/stack.h"

#include <vector>

namespace incident::postmortem {

// The arguments of the function of one shown frame. An argument has a value only if its location can be evaluated with
// the frame's registers and captured memory; otherwise Argument::how says why not.
std::vector<Argument> arguments_of(ModuleSet &modules, const NamedStack &stack, std::size_t shown);

// The first frame whose function has debug info with parameters; not set if there is none.
std::optional<std::size_t> frame_with_debug_info(const NamedStack &stack);

} // namespace incident::postmortem
