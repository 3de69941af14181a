// stack_changes HOW: handle() runs on a stack of its own, from which the thread goes over to another one after a
// millisecond; handle() is left where it stands.  Then waits for standard input far down the thread's stack, goes back
// to handle(), which returns, and waits again.
//   contexts   by swapcontext
//   own        by code of the program's own, which nobody knows by name
//   library    by a library's swapcontext: LIBRARY is its path (this file, with -DLIBRARY -shared)
//   hangs      not at all: handle() waits for standard input itself
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
#define STACK_BYTES (256 * 1024)

#if defined(LIBRARY) || defined(CONTEXTS)
static ucontext_t here, there;

void begin_there(void *stack, void (*run)(void)) {
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK_BYTES;
    there.uc_link = &here;
    makecontext(&there, run, 0);
    swapcontext(&here, &there);
}

void leave_there(void) {
    swapcontext(&there, &here);
}

void go_there(void) {
    swapcontext(&here, &there);
}
#endif

#ifndef LIBRARY
static int hangs;

#if defined(OWN)
static void *here, *there;

__attribute__((naked, noinline)) static void change(void **from, void *to) {
    __asm__("push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
            "mov %rsp, (%rdi)\n\tmov %rsi, %rsp\n\t"
            "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret");
}

static void begin_there(void *stack, void (*run)(void)) {
    void **top = (void **)((char *)stack + STACK_BYTES) - 2;
    top[0] = (void *)run;
    there = top - 6; /* what change() takes off it before it returns to run */
    change(&here, there);
}

static void leave_there(void) {
    change(&there, here);
}

static void go_there(void) {
    change(&here, there);
}
#elif !defined(CONTEXTS)
static void (*begin_there)(void *, void (*)(void)), (*leave_there)(void), (*go_there)(void);
#endif

APART static void wait_deep_down(void) {
    volatile char room[48 * 1024];
    char c;
    room[0] = 0;
    if (read(0, &c, 1) < 0)
        _exit(1);
    __asm__ volatile("" ::"r"(room) : "memory");
}

APART long handle(long ms) {
    usleep(ms * 1000);
    if (hangs)
        wait_deep_down();
    else
        leave_there();
    return ms + 1;
}

static void run(void) {
    handle(1);
    leave_there();
}

int main(int argc, char **argv) {
    hangs = !strcmp(argv[1], "hangs");
#if !defined(OWN) && !defined(CONTEXTS)
    void *library = dlopen(argv[2], RTLD_NOW);
    if (!library)
        return 2;
    begin_there = dlsym(library, "begin_there");
    leave_there = dlsym(library, "leave_there");
    go_there = dlsym(library, "go_there");
#endif
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    puts("ready");
    fflush(stdout);
    getchar();
    begin_there(stack, run);
    wait_deep_down();
    go_there();
    puts("went on");
    fflush(stdout);
    wait_deep_down();
    return 0;
}
#endif
