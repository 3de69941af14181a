// The main thread's stack, as far as it will be needed.
#pragma once

namespace incident::daemon {

// Has the kernel give 512 KiB of stack now: to grow it where there is no memory would be a SIGSEGV, not an error.
void reserve_stack();

} // namespace incident::daemon
