// To be preloaded: a disk on which each flush takes SLOW_FLUSH_MS milliseconds more.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void) {
    const char *ms = getenv("SLOW_FLUSH_MS");
    long long ns = ms ? atoll(ms) * 1000000LL : 0;
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

int fsync(int fd) {
    wait_for_disk();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    wait_for_disk();
    return (int)syscall(SYS_fdatasync, fd);
}
