/* hostile KIND [NUMBER [large]]: makes itself hard to look at, says "ready", waits for the end of its input, and dies
 * of a null pointer. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { page = 4096 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Its core takes a while to write. */
static void large(void) {
    size_t bytes = 256u << 20;
    memset(malloc(bytes), 1, bytes);
}

/* Neighbours with different rights are not merged. */
static void mappings(int count) {
    char *all = mmap(0, (size_t)count * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        fail("mmap");
    for (int i = 0; i < count; i += 2)
        if (mprotect(all + (size_t)i * page, page, PROT_READ))
            fail("mprotect");
}

static void descriptors(int count) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count + 64;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        fail("setrlimit");
    for (int i = 0; i < count; i++)
        if (open("/dev/null", O_RDONLY) < 0)
            fail("open");
}

/* What may stand behind a descriptor, other than a file. */
static void kinds(const char *fifo) {
    int pair[2];
    if (open(fifo, O_RDWR | O_NONBLOCK) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(pair) ||
        open("/dev/zero", O_RDONLY) < 0 || open("/dev/full", O_RDWR) < 0 || open("/proc/self/mem", O_RDONLY) < 0 ||
        memfd_create("a\x1b[31m\nb", 0) < 0)
        fail("open");
}

/* Held by a tracer at each signal for a while; the tracer lets it go on to die. */
static void traced(void) {
    pid_t tracee = getpid();
    int ready[2];
    if (pipe(ready))
        fail("pipe");
    if (fork() == 0) {
        int status;
        if (ptrace(PTRACE_SEIZE, tracee, 0, 0))
            fail("ptrace");
        close(ready[1]);
        while (waitpid(tracee, &status, __WALL) == tracee && WIFSTOPPED(status)) {
            char *registers = calloc(1, 4096);
            ptrace(PTRACE_GETREGS, tracee, 0, registers);
            ptrace(PTRACE_CONT, tracee, 0, (long)WSTOPSIG(status));
        }
        _exit(0);
    }
    close(ready[1]);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    read(ready[0], &(char){0}, 1); /* until it has closed its end */
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "", *more = argc > 2 ? argv[2] : "0";
    if (!strcmp(kind, "mappings"))
        mappings(atoi(more));
    else if (!strcmp(kind, "descriptors"))
        descriptors(atoi(more));
    else if (!strcmp(kind, "kinds"))
        kinds(more);
    else if (!strcmp(kind, "undumpable"))
        prctl(PR_SET_DUMPABLE, 0);
    else if (!strcmp(kind, "traced"))
        traced();
    else if (!strcmp(kind, "named"))
        prctl(PR_SET_NAME, more);
    if (argc > 3 && !strcmp(argv[3], "large"))
        large();
    puts("ready");
    fflush(stdout);
    while (read(0, &(char){0}, 1) > 0)
        ;
    *(volatile int *)0 = 1;
}
