/* faults KIND: dies in the way named, some frames deep.  Compiled by the tests in many ways
 * (optimization, frame pointers, PIE, static), so that it is the compiler's code that is unwound. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

struct item {
    int kind;
    struct item *next;
    int value;
};

volatile int zero, sink;
struct item *volatile nothing;
void (*volatile nowhere)(void);

APART int value_of(struct item *item) {
    return item->value; /* offset 16 */
}

static inline int twice(struct item *item) {
    return 2 * value_of(item) + 1;
}

APART int walk(struct item *item, int depth) {
    if (depth == 0)
        return twice(item) + 1;
    char room[64];
    memset(room, depth, sizeof room);
    sink += room[depth & 63];
    return walk(item, depth - 1) + 1;
}

APART int overflow(volatile char *above) {
    volatile char room[512];
    room[0] = above ? above[0] : 0;
    return overflow(room) + room[0];
}

static int compare(const void *a, const void *b) {
    return value_of(nothing) + *(const int *)a - *(const int *)b;
}

APART void sort(void) {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    sink = numbers[0];
}

APART void smash(size_t length) {
    char buffer[16];
    memset(buffer, 'A', length);
    __asm__ volatile("" : : "r"(buffer) : "memory");
}

APART void free_twice(void) {
    void *volatile memory = malloc(100);
    free(memory);
    free(memory);
}

APART void write_past_chunk(void) {
    char *volatile first = malloc(24), *volatile second = malloc(2000), *volatile third = malloc(24);
    memset(first, 'B', 40); /* over the size of the next chunk, which nobody can be right to free so */
    __asm__ volatile("" : : : "memory");
    free(second);
    sink = third[0];
}

/* glibc's words for that: "double free or corruption". */
APART void overrun_two(void) {
    char *volatile first = malloc(2000), *volatile second = malloc(2000), *volatile third = malloc(24);
    memset(first, 'A', 2064); /* the next chunk's size, and what it says of the first, too */
    __asm__ volatile("" : : : "memory");
    free(second);
    free(first);
    sink = third[0];
}

APART void assert_it(int value) {
    assert(value == 7 && "seven it must be");
}

APART void bus(void) {
    char name[] = "/tmp/faults-XXXXXX";
    int file = mkstemp(name);
    ftruncate(file, 8192);
    char *pages = mmap(0, 8192, PROT_READ, MAP_SHARED, file, 0);
    ftruncate(file, 4096);
    unlink(name);
    sink = pages[5000];
}

APART void use_unmapped(void) {
    char *pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages[100] = 1;
    munmap(pages, 1 << 20);
    sink = pages[100];
}

/* Runs off its page into one that was unmapped before. */
APART void run_off(void) {
    char *volatile pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    for (volatile char *at = pages + 100; at < pages + 5100; at++)
        *at = 1;
}

APART void write_past_limit(void) {
    struct rlimit limit = {10, 10};
    char name[] = "/tmp/faults-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    setrlimit(RLIMIT_FSIZE, &limit);
    sink = write(file, name, 10); /* as much as it allows */
    sink = write(file, name, 10);
}

static void raise_again(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    signal(number, SIG_DFL);
    raise(number);
}

APART void report_and_die(void) {
    struct sigaction action = {.sa_sigaction = raise_again, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    sink = value_of(nothing);
}

APART void write_constant(const char *text) {
    *(char *)text = 'x';
}

APART void run_data(void) {
    static unsigned char code[] = {0xc3};
    ((void (*)(void))(uintptr_t)code)();
    sink = 1;
}

APART int wild(volatile int *where) {
    return *where;
}

static void handler(int number) {
    sink = number + value_of(nothing);
}

APART void in_handler(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    sink = 2;
}

APART void forbidden_call(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    syscall(SYS_getpriority, 0, 0);
}

static void *sleeper(void *unused) {
    for (;;)
        pause();
    return unused;
}

static void *small_overflow(void *unused) {
    sink = overflow(0);
    return unused;
}

APART void on_small_stack(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_create(&thread, &attributes, small_overflow, 0);
    pthread_join(thread, 0);
}

APART void call_null(void) {
    nowhere();
    sink = 3;
}

APART void call_abort(void) {
    abort();
}

static int is(const char *kind, const char *name) {
    return strcmp(kind, name) == 0;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    pthread_t threads[2];
    if (is(kind, "threads"))
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], 0, sleeper, 0);
    if (is(kind, "null") || is(kind, "threads"))
        sink = walk(nothing, 5);
    else if (is(kind, "deep"))
        sink = walk(nothing, 100);
    else if (is(kind, "sort"))
        sort();
    else if (is(kind, "overflow"))
        sink = overflow(0);
    else if (is(kind, "thread-overflow"))
        on_small_stack();
    else if (is(kind, "call-null"))
        call_null();
    else if (is(kind, "abort"))
        call_abort();
    else if (is(kind, "assert"))
        assert_it(argc);
    else if (is(kind, "double-free"))
        free_twice();
    else if (is(kind, "heap"))
        write_past_chunk();
    else if (is(kind, "overrun"))
        overrun_two();
    else if (is(kind, "smash"))
        smash(64);
    else if (is(kind, "divide"))
        sink = argc / zero;
    else if (is(kind, "trap"))
        __builtin_trap();
    else if (is(kind, "bus"))
        bus();
    else if (is(kind, "unmapped"))
        use_unmapped();
    else if (is(kind, "run-off"))
        run_off();
    else if (is(kind, "file-limit"))
        write_past_limit();
    else if (is(kind, "report"))
        report_and_die();
    else if (is(kind, "read-only"))
        write_constant("constant");
    else if (is(kind, "no-exec"))
        run_data();
    else if (is(kind, "text-pointer"))
        sink = wild((volatile int *)0x6c6c6f77206f6c6c);
    else if (is(kind, "wild"))
        sink = wild((volatile int *)0x123456789000);
    else if (is(kind, "handler"))
        in_handler();
    else if (is(kind, "seccomp"))
        forbidden_call();
    else if (is(kind, "sleep"))
        pause();
    else if (is(kind, "kill-self"))
        kill(getpid(), argc > 2 ? atoi(argv[2]) : SIGKILL);
    else if (is(kind, "int3"))
        __asm__ volatile("int3");
    return 0;
}
