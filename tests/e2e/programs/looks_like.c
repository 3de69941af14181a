/* looks_like KIND: dies in a way that looks like another one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

volatile int sink;

APART void store(volatile int *where) {
    *where = 42;
}

/* Like a double free: the end of one chunk is over the sizes of the next, and each is freed once. */
APART void overrun(void) {
    char *volatile first = malloc(2000), *volatile second = malloc(2000), *volatile third = malloc(10);
    memset(first, 'A', 2064);
    free(second);
    free(first);
    sink = third[0];
}

/* Like the use of what was unmapped: the copy runs off its page into one that is gone for long. */
APART void copy(char *to, const char *from, size_t length) {
    memcpy(to, from, length);
    sink = to[0];
}

APART void overcopy(void) {
    static char from[100000];
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    copy(pages + 100, from, 5000);
}

/* Like a signal of its own: the kernel raises SIGXFSZ without saying who. */
APART void grow_file(void) {
    struct rlimit limit = {10, 10};
    char name[] = "/tmp/looks_like-XXXXXX", bytes[100] = {0};
    int file = mkstemp(name);
    unlink(name);
    setrlimit(RLIMIT_FSIZE, &limit);
    sink = write(file, bytes, sizeof bytes);
    sink = write(file, bytes, sizeof bytes);
}

/* Like a signal of its own, and it is one: after a fault that its handler has reported. */
static void report(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    signal(number, SIG_DFL);
    raise(number);
}

APART void raise_again(void) {
    static char room[65536];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = report;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    sigaltstack(&stack, 0);
    sigaction(SIGSEGV, &action, 0);
    store((volatile int *)"a constant");
}

/* Like code of the program: what it jumps to is data, behind the last function. */
APART void jump_to_data(void) {
    static unsigned char data[64] = {0xc3};
    void (*volatile there)(void) = (void (*)(void))(unsigned long)data;
    there();
    sink = 1;
}

/* Like a function that main called: it is on a stack of its own. */
static ucontext_t back, made;

static void in_context(void) {
    store((volatile int *)0x40);
}

APART void switch_stack(void) {
    getcontext(&made);
    made.uc_stack.ss_sp = malloc(65536);
    made.uc_stack.ss_size = 65536;
    made.uc_link = &back;
    makecontext(&made, in_context, 0);
    swapcontext(&back, &made);
}

/* Like a process without its thread: children that share the parent's memory and have made no call yet. */
static int in_child(void *unused) {
    (void)unused;
    store((volatile int *)0x30);
    return 0;
}

static void child_of_vfork(void) {
    if (vfork() == 0) {
        in_child(0);
        _exit(1);
    }
    wait(0);
}

static void child_of_clone(void) {
    char *stack = malloc(65536);
    clone(in_child, stack + 65536, CLONE_VM | SIGCHLD, 0);
    wait(0);
}

/* Like a call by main: the library in between is deleted. */
APART int call_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    int (*enter)(void) = (int (*)(void))dlsym(library, "enter");
    unlink(path);
    return enter() + 1;
}

int main(int argc, char **argv) {
    const char *kind = argv[1];
    if (!strcmp(kind, "overrun"))
        overrun();
    else if (!strcmp(kind, "overcopy"))
        overcopy();
    else if (!strcmp(kind, "file-limit"))
        grow_file();
    else if (!strcmp(kind, "raised-again"))
        raise_again();
    else if (!strcmp(kind, "data"))
        jump_to_data();
    else if (!strcmp(kind, "context"))
        switch_stack();
    else if (!strcmp(kind, "vfork"))
        child_of_vfork();
    else if (!strcmp(kind, "clone"))
        child_of_clone();
    else if (!strcmp(kind, "deleted"))
        sink = call_library(argv[2]);
    return argc > 9;
}
