/* A call chain whose frames have buffers that nobody writes to: their pages are not there.
 * holes BYTES main|thread|sibling|wait|handler: who has it, the thread that crashes, one that waits beside it, one that
 * is looked at while it waits in a read of standard input, or one whose handler, on a stack of its own, aborts. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *who;
static int ready[2];

__attribute__((noinline)) static void innermost(void) {
    char byte;
    if (!strcmp(who, "sibling"))
        write(ready[1], "x", 1);
    if (!strcmp(who, "sibling") || !strcmp(who, "wait")) {
        if (read(0, &byte, 1) < 0)
            abort();
    } else {
        *(volatile int *)16 = 1;
    }
    __asm__ volatile("");
}

__attribute__((noinline)) static void middle(int size) {
    char buffer[size];
    __asm__ volatile("" : : "r"(buffer) : "memory");
    innermost();
    __asm__ volatile("" : : "r"(buffer) : "memory");
}

__attribute__((noinline)) static void outer(int size) {
    char buffer[size];
    __asm__ volatile("" : : "r"(buffer) : "memory");
    middle(size);
    __asm__ volatile("" : : "r"(buffer) : "memory");
}

static void *run(void *size) {
    outer(*(int *)size);
    __asm__ volatile("");
    return NULL;
}

static void on_fault(int number) {
    (void)number;
    abort();
}

static void handle_on_another_stack(void) {
    stack_t other = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

int main(int count, char **arguments) {
    int size = atoi(arguments[1]);
    who = arguments[2];
    (void)count;
    pipe(ready);
    puts("ready");
    fflush(stdout);
    if (!strcmp(who, "handler"))
        handle_on_another_stack();
    if (!strcmp(who, "main") || !strcmp(who, "wait") || !strcmp(who, "handler"))
        return outer(size), 0;
    pthread_attr_t wide;
    pthread_attr_init(&wide);
    pthread_attr_setstacksize(&wide, 64 << 20);
    pthread_t thread;
    pthread_create(&thread, &wide, run, &size);
    char byte;
    if (!strcmp(who, "sibling") && read(ready[0], &byte, 1) == 1)
        usleep(100000), *(volatile int *)16 = 1;
    pthread_join(thread, NULL);
    return 0;
}
