// Rebuilds glibc's lists of its threads, for libthread_db. Without them gdb prints long warnings that it cannot use
// libthread_db, and does not know the threads' pthread_t. The lists can be rebuilt: each thread's struct pthread begins
// where its fs register points, and glibc exports the offsets of the list's pointers in it (nptl_db/structs.def of
// glibc, from 2.34 on, which has the lists in ld.so or in a static program).
#pragma once

#include "postmortem/image/loaded_modules.h"
#include "postmortem/image/made_memory.h"

#include <optional>
#include <vector>

namespace incident::postmortem {

struct ThreadList {
    std::vector<MadeMemory> pieces;
    // The number of threads whose struct pthread was not captured. For these all fields except thread id, address and
    // list pointers are zero.
    std::size_t made_up = 0;
};

// Not set if it is not such a glibc, or if captured lists do not fit the threads.
std::optional<ThreadList> make_thread_list(const CrashImage &image, const LoadedModules &modules);

} // namespace incident::postmortem
