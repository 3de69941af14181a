// Reads memory of the threads of a living process from outside, through /proc/PID/mem: the stack from the red zone up,
// and the bytes around each register that points somewhere.  These are the parts that capture.bpf.h copies of a dying
// thread in the thread's own context.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/hanging.h"
#include "capture/collect/snapshot.h"

namespace incident::capture {

// Fills the stack and the windows of each thread that was seen from outside (ROLE_LIVING).  Threads that were captured
// in their own context stay as they are.  Reading takes the mmap_lock of the process, so it runs on a thread of its
// own.  What is not read before the deadline is left out, and the result entry "memory" says so.
// Nothing is read once the process executes another program than this one.
void collect_memory(const OsRoots &os, const Subject &subject, const Program &program,
                    std::vector<ThreadSnapshot> &threads, std::chrono::milliseconds deadline, Collected &into);

} // namespace incident::capture
