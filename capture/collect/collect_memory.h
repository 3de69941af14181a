// Memory of a living process's threads, read from outside through /proc/PID/mem: the stack
// from the red zone up and the bytes around each register that points somewhere.  What
// capture.bpf.h copies of a dying thread in its own context, for one that lives on.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/snapshot.h"

namespace incident::capture {

// Fills stack and windows of each thread seen from outside (ROLE_LIVING); those captured in
// their own context stay as they are.  Reading takes the process's mmap_lock, so it runs on
// a thread of its own and what is not there by the deadline stays out; the result entry
// "memory" says so.
void collect_memory(const OsRoots &os, const ProcessRef &process, std::vector<ThreadSnapshot> &threads,
                    std::chrono::milliseconds deadline, Collected &into);

} // namespace incident::capture
