// paced COUNT RATE: so many system calls, so many a second, and then killed by SIGTERM, which leaves no core.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    long count = atol(argv[1]), period = 1000000000 / atol(argv[2]);
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next); // no system call: the vdso answers
    for (long i = 0; i < count; ++i) {
        next.tv_nsec += period;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    raise(SIGTERM);
}
