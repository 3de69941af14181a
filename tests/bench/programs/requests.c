// Requests of io_uring that do nothing, 32 submitted and completed by each call, as many as the next line of its input
// says: "COUNT WHAT".  Answers with ns of wall time for a request, pinned, the median of blocks.
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"

enum { BLOCKS = 21, BATCH = 32 };

static int ring;
static struct io_uring_params params;
static char *queue, *answers;

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *mapped(size_t bytes, off_t what) {
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    if (place == MAP_FAILED)
        exit(1);
    return place;
}

static void make_ring(void) {
    ring = (int)syscall(SYS_io_uring_setup, BATCH, &params);
    if (ring < 0) {
        perror("io_uring_setup");
        exit(1);
    }
    queue = mapped(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    answers = mapped(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries = mapped(params.sq_entries * sizeof *entries, IORING_OFF_SQES);
    unsigned *places = (unsigned *)(queue + params.sq_off.array);
    for (unsigned i = 0; i < params.sq_entries; ++i) {
        memset(&entries[i], 0, sizeof entries[i]);
        entries[i].opcode = IORING_OP_NOP;
        entries[i].user_data = i;
        places[i] = i;
    }
}

static void request(long times) {
    unsigned *tail = (unsigned *)(queue + params.sq_off.tail), *head = (unsigned *)(answers + params.cq_off.head);
    for (long i = 0; i < times; i += BATCH) {
        __atomic_store_n(tail, *tail + BATCH, __ATOMIC_RELEASE);
        syscall(SYS_io_uring_enter, ring, BATCH, BATCH, IORING_ENTER_GETEVENTS, NULL, 0);
        __atomic_store_n(head, *head + BATCH, __ATOMIC_RELEASE);
    }
}

static int by_size(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

int main(void) {
    long count;
    int what;
    pin();
    make_ring();
    puts("ready");
    fflush(stdout);
    while (scanf("%ld %d", &count, &what) == 2) {
        double blocks[BLOCKS];
        long each = (count / BLOCKS + BATCH) / BATCH * BATCH;
        for (int i = 0; i < BLOCKS; ++i) {
            double begin = now_ns();
            request(each);
            blocks[i] = (now_ns() - begin) / (double)each;
        }
        qsort(blocks, BLOCKS, sizeof *blocks, by_size);
        printf("%.3f\n", blocks[BLOCKS / 2]);
        fflush(stdout);
    }
    return 0;
}
