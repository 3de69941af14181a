// Return addresses in a full core, of functions whose return was probed when the process died.
//
// The kernel writes the core as the memory was: with the address of its trampoline where a return address stood
// (capture/collect/return_probes.h).  gdb ends there, so the private copy of the core that it is given is put right by
// what the bundle says of each place; the core itself stays as it is.
#pragma once

#include "capture/os/result.h"
#include "postmortem/read/json_view.h"

#include <cstdint>
#include <vector>

namespace incident::postmortem {

struct ReplacedReturn {
    std::uint64_t address = 0; // of the word on the stack
    std::uint64_t trampoline = 0;
    std::uint64_t return_address = 0;
};

// What threads.json says of them; entries that cannot be true are left out.
std::vector<ReplacedReturn> replaced_returns(JsonView threads);

// Writes to the file: an ELF core of a 64-bit process, open for reading and writing.  Words that are not in the core,
// or are not the trampoline's address (the frame had been left), stay.  The number of words put right; errors: no such
// core, reading or writing fails.
Result<std::size_t> put_returns_right(int core, const std::vector<ReplacedReturn> &returns);

} // namespace incident::postmortem
