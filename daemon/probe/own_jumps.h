// Code that goes on elsewhere on a stack by itself, and not through longjmp or setcontext: __builtin_longjmp (Ruby),
// raised exceptions of OCaml, switches of coroutines (Ruby's fibers).  Such code may have no name that could be looked
// for, but it has a shape: the stack pointer is loaded from memory, and a jump through a register or memory follows, or
// a return. Pure reading; the file is hostile.
#pragma once

#include "daemon/probe/elf_image.h"

namespace incident::daemon {

// Leaves out what is followed by other means, or ends no call: longjmp under its names, the end of LLVM's unwinder,
// V8's jumps between frames of JavaScript.
bool has_own_jumps(const ElfImage &image);

} // namespace incident::daemon
