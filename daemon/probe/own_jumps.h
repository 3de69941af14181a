// Finds code that jumps to another place on a stack, or to another stack, without longjmp or setcontext: for example
// __builtin_longjmp (Ruby), exceptions of OCaml, and switches of coroutines (fibers of Ruby).  Such code may have no
// name to search for, but it has a shape: it loads the stack pointer from memory, and then jumps through a register or
// memory, or returns.  It only reads; the file is hostile.
#pragma once

#include "daemon/probe/elf_image.h"

namespace incident::daemon {

// Leaves out code that is followed in other ways or ends no call: longjmp under its names, the end of LLVM's unwinder,
// and V8's jumps between frames of JavaScript.
bool has_own_jumps(const ElfImage &image);

} // namespace incident::daemon
