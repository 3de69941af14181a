// Calls of getppid, as many in each thread as the next line of its input says: "COUNT THREADS".  Answers with ns of
// wall time for a call of all threads: of one thread, pinned, the median of blocks, so that being preempted once does
// not count; of several, not pinned, over the whole.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"

enum { BLOCKS = 21, THREADS_MAX = 256, WARM_UP = 1000 };

static pthread_barrier_t begun;
static long count;

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void call(long times) {
    for (long i = 0; i < times; ++i)
        syscall(SYS_getppid);
}

static int by_size(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static double alone(void) {
    double blocks[BLOCKS];
    long each = count / BLOCKS + 1;
    call(WARM_UP);
    for (int i = 0; i < BLOCKS; ++i) {
        double begin = now_ns();
        call(each);
        blocks[i] = (now_ns() - begin) / each;
    }
    qsort(blocks, BLOCKS, sizeof *blocks, by_size);
    return blocks[BLOCKS / 2];
}

struct turn {
    double begin, end; // as the thread sees them: who made it may run long after it began
};

static void *one_of_many(void *mine) {
    struct turn *turn = mine;
    call(WARM_UP);
    pthread_barrier_wait(&begun);
    turn->begin = now_ns();
    call(count);
    turn->end = now_ns();
    return NULL;
}

static double together(int threads) {
    pthread_t all[THREADS_MAX];
    struct turn turn[THREADS_MAX];
    pthread_barrier_init(&begun, NULL, threads);
    for (int i = 0; i < threads; ++i)
        if (pthread_create(&all[i], NULL, one_of_many, &turn[i]))
            exit(1);
    for (int i = 0; i < threads; ++i)
        pthread_join(all[i], NULL);
    struct turn whole = turn[0];
    for (int i = 1; i < threads; ++i) {
        whole.begin = turn[i].begin < whole.begin ? turn[i].begin : whole.begin;
        whole.end = turn[i].end > whole.end ? turn[i].end : whole.end;
    }
    return (whole.end - whole.begin) / count / threads;
}

int main(void) {
    int threads;
    cpu_set_t everywhere;
    sched_getaffinity(0, sizeof everywhere, &everywhere);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (scanf("%ld %d", &count, &threads) == 2 && threads >= 1 && threads <= THREADS_MAX) {
        if (threads == 1)
            pin();
        else
            sched_setaffinity(0, sizeof everywhere, &everywhere);
        printf("%.2f\n", threads == 1 ? alone() : together(threads));
    }
}
