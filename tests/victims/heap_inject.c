// heap_inject.so: put into a program by LD_PRELOAD, makes one of the classic mistakes with its heap when it gets
// SIGRTMIN+7, in the program's own process and allocator.  HEAP_BUG says which:
//   use-after-free-read, use-after-free-write   of a large allocation, which the allocator may have unmapped
//   use-after-free-reused                       follows a pointer that another allocation has left there
//   double-free
//   overrun                                     writes one byte behind an allocation, then frees it and its neighbour
//   leak                                        allocates 1,000,000 times and forgets each hundredth; does not die
// Where the allocator does not notice, the program is aborted with the pointer still on the stack.  The signal is
// handled where the program waits: malloc in a signal handler is right only there.
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noipa))
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

struct node {
    struct node *next;
    long value;
};

static void say(const char *what, const void *p, size_t size)
{
    char line[128];
    int length = snprintf(line, sizeof line, "%s %p %zu\n", what, p, size);
    if (write(STDERR_FILENO, line, length) != length)
        _exit(3);
}

SITE void *injected_allocate(size_t size)
{
    void *p = malloc(size);
    KEEP_FRAME();
    return p;
}

SITE void injected_free(void *p)
{
    free(p);
    KEEP_FRAME();
}

SITE void *injected_reuse(size_t size)
{
    void *p = malloc(size);
    KEEP_FRAME();
    return p;
}

SITE void *injected_leak(size_t size)
{
    void *p = malloc(size);
    KEEP_FRAME();
    return p;
}

SITE long injected_read(volatile struct node *node)
{
    return node->value;
}

SITE void injected_write(volatile struct node *node)
{
    node->value = 1;
}

SITE long injected_follow(volatile struct node *node)
{
    return node->next->value + node->value;
}

static void use_after_free(const char *how, size_t size)
{
    struct node *node = injected_allocate(size);
    memset(node, 0, size);
    say("allocated", node, size);
    injected_free(node);
    if (!strcmp(how, "reused")) {
        size_t *other;
        do /* an allocator may have others of that size to give first */
            other = injected_reuse(size);
        while (other != (void *)node && other);
        say("reused", other, size);
        *other = 16; /* an address where nothing is */
        injected_follow(node);
    }
    if (!strcmp(how, "write"))
        injected_write(node);
    else
        injected_read(node);
    abort();
}

static void double_free(void)
{
    void *p = injected_allocate(40);
    say("allocated", p, 40);
    injected_free(p);
    free(p);
    abort();
}

static void overrun(void)
{
    char *p = injected_allocate(24), *next = injected_allocate(24);
    say("allocated", p, 24);
    ((volatile char *)p)[malloc_usable_size(p)] = 0;
    injected_free(next);
    injected_free(p);
    abort();
}

static void leak(void)
{
    static void *recent[1024];
    long leaked = 0;
    for (long i = 0; i < 1000000; ++i) {
        if (i % 100 == 99) {
            leaked += injected_leak(48) != NULL;
            continue;
        }
        free(recent[i % 1024]);
        recent[i % 1024] = malloc(16 + i % 500);
    }
    say("leaked", NULL, leaked);
}

static void on_signal(int number)
{
    (void)number;
    const char *bug = getenv("HEAP_BUG");
    const char *uaf = "use-after-free-";
    if (bug && !strncmp(bug, uaf, strlen(uaf)))
        use_after_free(bug + strlen(uaf), strcmp(bug + strlen(uaf), "reused") ? 8 << 20 : 48);
    else if (bug && !strcmp(bug, "double-free"))
        double_free();
    else if (bug && !strcmp(bug, "overrun"))
        overrun();
    else if (bug && !strcmp(bug, "leak"))
        leak();
}

__attribute__((constructor)) static void prepare(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 7, &action, NULL);
}
