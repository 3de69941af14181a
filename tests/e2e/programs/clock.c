/* Preloaded: the wall clock is set wrong by as many seconds as the file says that $CLOCK_OFFSET names.  (A time
 * namespace has no CLOCK_REALTIME of its own, and the machine's is not a test's to set.) */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *path = getenv("CLOCK_OFFSET");
    FILE *file = path ? fopen(path, "re") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1)
            seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += offset();
    return failed;
}
