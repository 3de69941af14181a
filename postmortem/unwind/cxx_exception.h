// Finds the C++ exception that ended a process, if the stack has the functions that throw it.
#pragma once

#include "postmortem/unwind/stack.h"

#include <optional>

namespace incident::postmortem {

// Not set if no frame throws, or if the exception's memory was not captured.
std::optional<Exception> exception_under_way(ModuleSet &modules, const NamedStack &stack);

} // namespace incident::postmortem
