// The C++ exception that ended a process, where the stack goes through its throwing.
#pragma once

#include "postmortem/unwind/stack.h"

#include <optional>

namespace incident::postmortem {

// Nothing where no frame throws, or where the exception's memory was not captured.
std::optional<Exception> exception_under_way(ModuleSet &modules, const NamedStack &stack);

} // namespace incident::postmortem
