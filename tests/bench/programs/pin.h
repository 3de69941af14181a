// Keeps a loop on one processor: the last, which the kernel's own work likes least.
#pragma once
#include <sched.h>
#include <unistd.h>

static inline void pin(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
    sched_setaffinity(0, sizeof one, &one); // where it may not, it wanders
}
