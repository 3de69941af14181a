// paces COUNT RATE: makes so many system calls, so many a second (0: as many as it can), and dies of a null write.
// paces told: makes 20,000, sends itself SIGUSR1, which it handles, and goes on until it is killed.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void do_nothing(int number) {
    (void)number;
}

static void make(long count) {
    for (long i = 0; i < count; ++i)
        syscall(SYS_getppid);
}

static void make_paced(long count, long rate) {
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long i = 0; i < count; ++i) {
        next.tv_nsec += 1000000000 / rate;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "told")) {
        signal(SIGUSR1, do_nothing);
        make(20000);
        raise(SIGUSR1);
        for (;;)
            make(1000);
    }
    if (argc != 3)
        return 2;
    if (atol(argv[2]))
        make_paced(atol(argv[1]), atol(argv[2]));
    else
        make(atol(argv[1]));
    *(volatile int *)0 = 0;
}
