// Memory that is held back for the time when no more is to be had (RLIMIT_AS, vm.overcommit_memory=2).
#pragma once

#include <cstddef>

namespace incident::daemon {

// Has the kernel give 512 KiB of stack now: to grow it where there is no memory would be a SIGSEGV, not an error.
void reserve_stack();

// Has all threads share two of malloc's arenas.  glibc makes one for each thread that meets another there, up to eight
// a CPU, and each holds on to what it has once needed (mallopt(3), M_ARENA_MAX).  For the start, before there are
// threads.
void share_arenas();

// Of address space: what an incident needs until it is written, or is known to have failed.
constexpr std::size_t memory_reserve = 16 * 1024 * 1024;

// Holds memory_reserve back, which operator new gives up, all at once, when it can get nothing elsewhere; takes what
// was given up again as soon as there is room.  Never touched, it takes no RAM.  For the start and for each second.
// Returns whether it was given up since the last call.
bool hold_memory_reserve();

} // namespace incident::daemon
