// Finds what Go's runtime says when it gives up: the text that it gave to throw() or fatal() (src/runtime/panic.go).
#pragma once

#include "postmortem/unwind/stack.h"

#include <optional>

namespace incident::postmortem {

// Not set if neither is on the stack, or if the text cannot be read. As a rule they are on a goroutine's stack, and the
// runtime dies on another.
std::optional<std::string> go_fatal_error(ModuleSet &modules, const NamedStack &stack);

} // namespace incident::postmortem
