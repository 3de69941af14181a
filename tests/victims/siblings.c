// siblings SLEEPERS READERS SPINNERS SIGNAL|fault: threads that sleep in futex, block in
// read on a pipe, or spin.  Once all of them do, the first thread dies: of SIGNAL sent
// to itself or of a null write.  Prints `tid role` for each thread.
#define _GNU_SOURCE
#include "die.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_THREADS = 512 };

static int never_written[2];
static int never_woken;
static int blocking_tids[MAX_THREADS];
static atomic_int blocking, spinning;

static void *sleep_in_futex(void *unused)
{
    dprintf(STDOUT_FILENO, "%d futex\n", gettid());
    blocking_tids[atomic_fetch_add(&blocking, 1)] = gettid();
    syscall(SYS_futex, &never_woken, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return unused;
}

static void *block_in_read(void *unused)
{
    char byte;
    dprintf(STDOUT_FILENO, "%d read\n", gettid());
    blocking_tids[atomic_fetch_add(&blocking, 1)] = gettid();
    return read(never_written[0], &byte, 1) == 1 ? NULL : unused;
}

static void *spin(void *unused)
{
    dprintf(STDOUT_FILENO, "%d spin\n", gettid());
    atomic_fetch_add(&spinning, 1);
    for (volatile unsigned long turns = 0;; turns++)
        ;
    return unused;
}

static void start(int count, void *(*body)(void *))
{
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, body, NULL))
            exit(3);
    }
}

// /proc/…/syscall begins with the call's number, or says "running".
static bool is_blocked(int tid)
{
    char path[64], first = 'r';
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    FILE *file = fopen(path, "r");
    if (file) {
        first = (char)fgetc(file);
        fclose(file);
    }
    return first >= '0' && first <= '9';
}

int main(int argc, char **argv)
{
    if (argc != 5 || pipe(never_written))
        return 2;
    int sleepers = atoi(argv[1]), readers = atoi(argv[2]), spinners = atoi(argv[3]);
    if (sleepers + readers > MAX_THREADS)
        return 2;
    dprintf(STDOUT_FILENO, "%d first\n", gettid());
    start(sleepers, sleep_in_futex);
    start(readers, block_in_read);
    start(spinners, spin);
    while (atomic_load(&blocking) < sleepers + readers || atomic_load(&spinning) < spinners)
        sched_yield();
    for (int i = 0; i < sleepers + readers; i++)
        while (!blocking_tids[i] || !is_blocked(blocking_tids[i]))
            sched_yield();
    if (strcmp(argv[4], "fault") != 0)
        kill(getpid(), signal_by_name(argv[4]));
    write_through_null();
}
