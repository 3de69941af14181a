// Finds the functions of the malloc family that a program or library defines, and where in its file they are probed. It
// only reads; the file is hostile.
#pragma once

#include "bpf/heap.h"
#include "capture/os/address.h"
#include "capture/os/result.h"
#include "daemon/probe/probe_price.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace incident::daemon {

struct HeapSite {
    std::string name; // "malloc"; if the function has several names, the best known
    bpf::heap_function function{};
    capture::FileOffset offset;               // where it is entered, arguments and stack as at its entry
    std::vector<capture::FileOffset> returns; // of operator new: its ret instructions, see below; else a return probe
    // Why it cannot be probed ("" if it can), or what its probe costs.
    std::string problem, remark;
};

// The functions of the file; empty if it defines none.  A function that only jumps to another one of them is left out.
// Operator new and delete are found only in allocators that have their own (jemalloc, tcmalloc, mimalloc), because
// others call malloc.  An operator new that throws gets no return probe, because an exception that passes one ends the
// program. fd: open for reading, not owned.  Error: no program or library for x86-64, or its tables are broken.
Result<std::vector<HeapSite>> find_heap_functions(int fd, const UprobeAbilities &abilities);

// Offset from the entry of an instruction that the kernel emulates under a probe, and that every call reaches with the
// same arguments, stack and preserved registers as at the entry; 0 if there is none near.
std::size_t cheap_entry(std::span<const std::uint8_t> code, const UprobeAbilities &abilities);

} // namespace incident::daemon
