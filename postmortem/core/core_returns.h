// Restores return addresses in a full core, if the returns of functions were probed when the process died.
// The kernel writes the core as the memory was: with the address of its trampoline in place of a return address
// (capture/collect/return_probes.h). gdb cannot unwind beyond that. So gdb gets a private copy of the core, in which
// these words are corrected with the addresses from the bundle. The core itself does not change.
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

// Reads them from threads.json; impossible entries are left out.
std::vector<ReplacedReturn> replaced_returns(JsonView threads);

// Corrects the file, which must be an ELF core of a 64-bit process, open for reading and writing. A word does not
// change if it is not in the core, or does not hold the trampoline's address (the frame had been left). Returns the
// number of corrected words, or an Error if it is no such core or reading or writing fails.
Result<std::size_t> put_returns_right(int core, const std::vector<ReplacedReturn> &returns);

} // namespace incident::postmortem
