/* Does by io_uring what others do by system calls, and dies of it.  MODE: crash; wait (for what does not come), late
 * (first for a line), overflow (the queue of completions), flood (more than can be listed wait for what does not come).
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ring;
static struct io_uring_params params;
static char *queue, *answers;
static struct io_uring_sqe *entries;

#define SUBMITTED(what) (*(unsigned *)(queue + params.sq_off.what))
#define COMPLETED(what) (*(unsigned *)(answers + params.cq_off.what))

static void make_ring(unsigned size, unsigned completions) {
    params.flags = completions ? IORING_SETUP_CQSIZE : 0;
    params.cq_entries = completions;
    ring = syscall(SYS_io_uring_setup, size, &params);
    if (ring < 0) {
        perror("io_uring_setup");
        exit(77);
    }
    int share = PROT_READ | PROT_WRITE;
    queue = mmap(0, params.sq_off.array + params.sq_entries * 4, share, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    answers = mmap(0, params.cq_off.cqes + params.cq_entries * 16, share, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    entries = mmap(0, params.sq_entries * sizeof(*entries), share, MAP_SHARED, ring, IORING_OFF_SQES);
}

static struct io_uring_sqe *entry(int operation, int fd, const void *address, unsigned length, uint64_t user_data) {
    unsigned index = SUBMITTED(tail) & (params.sq_entries - 1);
    struct io_uring_sqe *e = &entries[index];
    memset(e, 0, sizeof(*e));
    e->opcode = operation;
    e->fd = fd;
    e->addr = (uintptr_t)address;
    e->len = length;
    e->user_data = user_data;
    (&SUBMITTED(array))[index] = index;
    __atomic_store_n(&SUBMITTED(tail), SUBMITTED(tail) + 1, __ATOMIC_RELEASE);
    return e;
}

static int enter(unsigned count, unsigned wanted) {
    return syscall(SYS_io_uring_enter, ring, count, wanted, wanted ? IORING_ENTER_GETEVENTS : 0, 0, 0);
}

/* Submits the last entry and returns its result. */
static int done(void) {
    enter(1, 1);
    struct io_uring_cqe *all = (void *)(answers + params.cq_off.cqes);
    int result = all[COMPLETED(head) & (params.cq_entries - 1)].res;
    __atomic_store_n(&COMPLETED(head), COMPLETED(head) + 1, __ATOMIC_RELEASE);
    return result;
}

static void flood(void) {
    int ends[2], batch = 1024;
    make_ring(batch, 0);
    if (pipe(ends))
        exit(1);
    for (int k = 0; k < 16; k++) {
        for (int i = 0; i < batch; i++)
            entry(IORING_OP_POLL_ADD, ends[0], 0, 0, i)->poll32_events = POLLIN;
        enter(batch, 0);
    }
    puts("flooded");
    fflush(stdout);
    pause();
    exit(0);
}

int main(int argc, char **argv) {
    static char bytes[64];
    const char *mode = argc > 1 ? argv[1] : "crash";
    int ends[2], overflow = !strcmp(mode, "overflow");
    if (!strcmp(mode, "flood"))
        flood();
    make_ring(8, overflow ? 8 : 0);
    entry(IORING_OP_OPENAT, AT_FDCWD, "/etc/passwd", 0, 1)->open_flags = O_RDONLY | O_CLOEXEC;
    int file = done();
    entry(IORING_OP_READ, file, bytes, 5, 2);
    done();
    entry(IORING_OP_READ, file, bytes, 6, 3)->flags = IOSQE_ASYNC;
    done();
    entry(IORING_OP_OPENAT, AT_FDCWD, "/nonexistent/by-ring", 0, 4);
    done();
    syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &file, 1);
    entry(IORING_OP_READ, 0, bytes, 7, 5)->flags = IOSQE_FIXED_FILE;
    done();
    entry(IORING_OP_CLOSE, file, 0, 0, 6);
    done();
    if (pipe(ends))
        return 1;
    entry(IORING_OP_READ, ends[0], bytes, 8, 7)->off = -1;
    enter(1, 0);
    for (int i = 0; overflow && i < 12; i++) {
        entry(IORING_OP_NOP, -1, 0, 0, 100 + i);
        enter(1, 0);
    }
    printf("%d %d\n", file, ends[0]);
    fflush(stdout);
    usleep(50000);
    if (!strcmp(mode, "late")) {
        getchar();
        if (write(ends[1], "x", 1) != 1)
            return 1;
        enter(0, 1);
    }
    if (!strcmp(mode, "wait"))
        enter(0, 1);
    *(volatile int *)0 = 0;
}
