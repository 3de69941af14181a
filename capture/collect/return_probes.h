// Return addresses that probes have replaced, put back.
//
// While a probe of a function's return is pending, ours or anybody's, the kernel's trampoline stands on the stack where
// the return address stood, and everything that unwinds the stack ends there.  What is copied of a process's memory is
// put right before anybody reads it; the bundle says of each such place what stood there (threads.json,
// "return_probes"). A full core has the trampolines still: postmortem/ puts its copy right by that record.
#pragma once

#include "capture/collect/snapshot.h"

#include <cstddef>
#include <span>

namespace incident::capture {

// Of a returns_event as the ring buffer has it; an entry that the bytes do not hold is left out.
ReturnProbes return_probes_of(std::span<const std::uint8_t> event);

// In all that was copied of the process's memory: a word is replaced only where the trampoline's address stands at the
// place a thread's record names, for frames that longjmp() left keep their records.  Of a word that a copy holds in
// part, that part.  Doing it again changes nothing.
void put_return_addresses_back(ProcessSnapshot &process);

} // namespace incident::capture
