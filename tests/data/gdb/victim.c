// Dies in its first thread of a null pointer, with VICTIM_OVERFLOW set of endless recursion, while the second reads and the third waits for a signal.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct node {
    long value;
    struct node *next;
};
struct node *volatile list;
int table[4] = {1, 2, 3, 4};
char *volatile halved, *volatile heap, *volatile fixed;
volatile int ready;
int tids[3];

static long use(struct node *n) {
    return (long)n->next->next;
}

static long deeper(long n) {
    volatile char used[64];
    used[0] = (char)n;
    return deeper(n + 1) + used[0];
}

static void *reader(void *x) {
    int ends[2];
    char local[64] = "reader";
    tids[1] = (int)syscall(SYS_gettid);
    if (pipe(ends) != 0)
        abort();
    __sync_fetch_and_add(&ready, 1);
    if (read(ends[0], local, 1) != 0)
        abort();
    return x;
}

static void *sleeper(void *x) {
    char here[32] = "sleeper";
    tids[2] = (int)syscall(SYS_gettid);
    __sync_fetch_and_add(&ready, 1);
    for (;;)
        pause();
    return x + here[0];
}

int main(void) {
    pthread_t a, b;
    struct node bad = {7, 0};
    char mine[48] = "main";
    tids[0] = getpid();
    heap = malloc(100);
    strcpy(heap, "heap");
    pthread_create(&a, 0, reader, 0);
    pthread_create(&b, 0, sleeper, 0);
    while (ready < 2)
        usleep(1000);
    usleep(100000);
    // The upper half is given back; a page without access lies far from everything else.
    halved = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(halved + (1 << 19), 1 << 19);
    fixed = mmap((void *)0x200000000000, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    list = &bad;
    if (getenv("VICTIM_OVERFLOW"))
        return (int)deeper(0);
    mine[0]++;
    return (int)use(list);
}
