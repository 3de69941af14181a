// glibc's lists of its threads, for libthread_db: without them gdb says at length that it cannot use it,
// and does not know threads by their pthread_t.  What they consist of is known: each thread's struct
// pthread begins where its fs register points, and glibc exports where in it the list's pointers are
// (nptl_db/structs.def of glibc; from 2.34 on, which has the lists in ld.so or a static program).
#pragma once

#include "postmortem/image/loaded_modules.h"
#include "postmortem/image/made_memory.h"

#include <optional>
#include <vector>

namespace incident::postmortem {

struct ThreadList {
    std::vector<MadeMemory> pieces;
    // Threads whose struct pthread was not captured: of theirs all but thread id, address and list pointers is zeros.
    std::size_t made_up = 0;
};

// Nothing: not such a glibc, or captured lists that do not fit the threads there are.
std::optional<ThreadList> make_thread_list(const CrashImage &image, const LoadedModules &modules);

} // namespace incident::postmortem
