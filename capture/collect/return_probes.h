// Puts back the return addresses that return probes have replaced.
//
// While a return probe (of anybody) is pending, the kernel's trampoline is on the stack instead of the return address,
// and every unwinder stops there.  So copies of the process's memory are corrected before anybody reads them, and the
// bundle lists each such place (threads.json, "return_probes").  A full core still has the trampolines; postmortem/
// corrects its copy of the core by that list.
#pragma once

#include "capture/collect/snapshot.h"

#include <span>

namespace incident::capture {

// Reads a returns_event of the ring buffer.  An entry that the bytes do not hold is left out.
ReturnProbes return_probes_of(std::span<const std::uint8_t> event);

// Corrects everything that was copied of the process's memory.  A word is replaced only if it is the address of the
// trampoline, because frames that longjmp() has left keep their records.  If a copy holds only a part of a word, that
// part is replaced.  A second call changes nothing.
void put_return_addresses_back(ProcessSnapshot &process);

} // namespace incident::capture
