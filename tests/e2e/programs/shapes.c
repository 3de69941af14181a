/* shapes KIND: dies in the way named, at the end of main → shape → outer → inner → the function that does it.  Compiled
 * by several compilers in many ways, and put where its file is gone: test_differential.py knows what was planted here.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif

struct item {
    long kind, other;
    long value;
};

volatile long zero, sink, minus_one = -1;
struct item *volatile nothing;
void (*volatile nowhere)(void);
static const long constant[4] = {1, 2, 3, 4};
static long data[64] = {0xc3};

APART static long read_null(void) {
    return *(volatile long *)nothing + 1;
}

APART static long write_null(void) {
    *(volatile long *)nothing = 7;
    return 1;
}

APART static long read_member(void) {
    return nothing->value + sink;
}

APART static long call_null(void) {
    nowhere();
    return 1;
}

APART static long call_wild(void) {
    nowhere = (void (*)(void))(0x123456789000 + zero);
    nowhere();
    return 1;
}

APART static long wild(void) {
    return *(volatile long *)(0x123456789000 + zero) + 1;
}

APART static long noncanonical(void) {
    return *(volatile long *)(0x4141414141414141 + zero) + 1;
}

APART static long after_munmap(void) {
    volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[8] = 1;
    munmap((void *)page, 4096);
    return page[8];
}

APART static long write_constant(void) {
    *(volatile long *)&constant[zero] = 5;
    return 1;
}

APART static long run_data(void) {
    nowhere = (void (*)(void))(data + zero);
    nowhere();
    return 1;
}

APART static long recurse(volatile long *above) {
    volatile long room[64];
    room[0] = above ? above[0] : 0;
    long below = recurse(room);
    __asm__ volatile("" : : "r"(room) : "memory"); /* else it is made a loop */
    return below + room[0];
}

APART static long divide(void) {
    return 7 / zero;
}

APART static long divide_min(void) {
    long least = INT64_MIN + zero;
    return least / minus_one;
}

APART static long trap(void) {
    if (!zero)
        __builtin_trap();
    return 1;
}

APART static long breakpoint(void) {
    __asm__ volatile("int3");
    return sink;
}

APART static long assertion(void) {
    assert(zero == 5 && "five it must be");
    return 1;
}

APART static long aborts(void) {
    if (!zero)
        abort();
    return 1;
}

APART static long double_free(void) {
    char *volatile block = malloc(2000), *volatile between = malloc(2000);
    free(block);
    free(block);
    return between[0];
}

APART static long overrun(void) {
    char *volatile first = malloc(24), *volatile second = malloc(24);
    memset(first, 0x41, 64 + zero);
    __asm__ volatile("" : : "r"(first) : "memory"); /* else nobody reads it, and it is left out */
    free(second);
    free(first);
    char *volatile large = malloc(100000);
    return large[0];
}

#ifdef __GLIBC__
char *__strcpy_chk(char *to, const char *from, size_t size);

APART static long fortified(void) {
    static char room[8];
    __strcpy_chk(room, "more than eight", sizeof room);
    return room[0];
}

APART static long damaged_mutex(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    mutex.__data.__lock = 0;
    pthread_mutex_lock(&mutex);
    return mutex.__data.__lock;
}
#endif

APART static long smash(volatile char *into) {
    char room[16];
    volatile char *end = room;
    for (int i = 0; i < 96; i++)
        end[i] = 0x41;
    return into[0] + room[3];
}

APART static long misaligned(void) {
    char *at = (char *)data + 1 + zero;
    __asm__ volatile("movaps (%0), %%xmm0" : : "r"(at) : "xmm0", "memory");
    return sink;
}

APART static long beyond_file(void) {
    FILE *file = tmpfile();
    fwrite("x", 1, 1, file);
    fflush(file);
    volatile char *page = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fileno(file), 0);
    return page[4096 + zero];
}

APART static long raises(void) {
    raise(SIGSEGV);
    return sink;
}

static void on_fault(int number) {
    (void)number;
    abort();
}

APART static long handler_aborts(void) {
    signal(SIGSEGV, on_fault);
    return read_member();
}

static void raise_again(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

APART static long handler_raises(void) {
    signal(SIGSEGV, raise_again);
    return read_member();
}

APART static long spin(void) {
    struct rlimit limit = {1, 1000};
    setrlimit(RLIMIT_CPU, &limit);
    while (!zero)
        sink++;
    return sink;
}

static void *in_thread(void *unused) {
    (void)unused;
    sink = read_member() + 1;
    return NULL;
}

APART static long thread(void) {
    pthread_t one;
    pthread_create(&one, NULL, in_thread, NULL);
    pthread_join(one, NULL);
    return sink;
}

static int compare(const void *a, const void *b) {
    return (int)(read_member() + *(const int *)a - *(const int *)b);
}

APART static long through_libc(void) {
    int numbers[8] = {5, 3, 8, 1, 7, 2, 6, 4};
    qsort(numbers, 8, sizeof numbers[0], compare);
    return numbers[0];
}

static const struct {
    const char *name;
    long (*function)(void);
} shapes[] = {{"read-null", read_null},
              {"write-null", write_null},
              {"read-member", read_member},
              {"call-null", call_null},
              {"call-wild", call_wild},
              {"wild", wild},
              {"noncanonical", noncanonical},
              {"after-munmap", after_munmap},
              {"write-constant", write_constant},
              {"run-data", run_data},
              {"divide", divide},
              {"divide-min", divide_min},
              {"trap", trap},
              {"breakpoint", breakpoint},
              {"assertion", assertion},
              {"aborts", aborts},
              {"double-free", double_free},
              {"overrun", overrun},
#ifdef __GLIBC__
              {"fortified", fortified},
              {"mutex", damaged_mutex},
#endif
              {"misaligned", misaligned},
              {"beyond-file", beyond_file},
              {"raises", raises},
              {"handler-aborts", handler_aborts},
              {"handler-raises", handler_raises},
              {"spin", spin},
              {"thread", thread},
              {"through-libc", through_libc}};

APART static long inner(const char *name) {
    volatile char room[48];
    room[0] = name[0];
    if (!strcmp(name, "recurse"))
        return recurse(NULL) + room[0];
    if (!strcmp(name, "smash"))
        return smash(room) + room[0];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (!strcmp(name, shapes[i].name))
            return shapes[i].function() + room[0];
    return 0;
}

APART static long outer(const char *name, long more) {
    return more > 0 ? outer(name, more - 1) + 1 : inner(name) + 2;
}

APART static long shape(const char *name) {
    sink += outer(name, 3);
    return sink;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    puts("ready");
    if (count > 2) /* until it may */
        (void)!read(0, (char[1]){0}, 1);
    return (int)shape(arguments[1]) & 1;
}
