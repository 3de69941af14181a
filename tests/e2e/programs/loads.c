// loads LIBRARY: loads code that switches stacks when its calls' returns are probed by the kernel; then two coroutines
// are in step() at the same time and leave it in the order in which they entered.  Says how long after the load its
// calls still returned to the kernel's trampoline.
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

long step(long (*callback)(long), long argument);
extern void *returns_to;

static void (*switch_to)(void **from, void **to);
static void *first, *second;
static void *stack[4096] __attribute__((aligned(16)));
extern char __executable_start, etext;

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static long same(long argument) {
    return argument;
}

static long to_other(long argument) {
    switch_to(&first, &second);
    return argument;
}

static long to_first(long argument) {
    switch_to(&second, &first);
    return argument;
}

static long answers[2];

static void other(void) {
    answers[1] = step(to_first, 20);
    for (;;)
        switch_to(&second, &first);
}

static int hijacked(void) {
    const struct timespec pause = {.tv_nsec = 20000}; // not above max_rate
    nanosleep(&pause, NULL);
    step(same, 0);
    return (char *)returns_to < &__executable_start || (char *)returns_to > &etext;
}

static void wait_for_line(const char *said) {
    puts(said);
    fflush(stdout);
    getchar();
}

int main(int argc, char **argv) {
    wait_for_line("ready");
    const double patience = 10e6, begin = now_us();
    while (!hijacked() && now_us() - begin < patience) {
    }
    printf("%s\n", hijacked() ? "probed" : "not probed");
    const double before = now_us();
    *(void **)&switch_to = dlsym(dlopen(argv[1], RTLD_NOW), "switch_to");
    const double loaded = now_us();
    while (hijacked() && now_us() - loaded < patience) {
    }
    printf("loaded in %.0f us, return probes for %.0f us more\n", loaded - before, now_us() - loaded);
    wait_for_line("loaded");
    enum { top = sizeof stack / sizeof *stack - 2, saved = 6 };
    stack[top] = 0;
    stack[top - 1] = (void *)other;
    second = &stack[top - 1 - saved];
    answers[0] = step(to_other, 10); // other() enters it too, and comes back here
    switch_to(&first, &second);      // there it leaves it
    printf("answers %ld %ld\n", answers[0], answers[1]);
    return 0;
}
