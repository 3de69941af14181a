// own_jumps: leaves handle() by __builtin_longjmp, as Ruby's exceptions do, and waits where the old frame's words are
// still on the stack.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *out[5];

__attribute__((noinline, noclone)) static void wait_deep_down(void) {
    volatile char room[512];
    char c;
    __asm__ volatile("" ::"r"(room) : "memory");
    if (read(0, &c, 1) < 0)
        _exit(1);
    __asm__ volatile("" ::"r"(room) : "memory");
}

__attribute__((noinline, noclone)) void handle(int fails) {
    if (fails)
        __builtin_longjmp(out, 1);
    wait_deep_down();
}

__attribute__((noinline, noclone)) static void request(void) {
    if (!__builtin_setjmp(out))
        handle(1);
}

int main(int argc, char **argv) {
    puts("ready");
    fflush(stdout);
    getchar();
    if (argc > 1 && !strcmp(argv[1], "hangs"))
        handle(0);
    request();
    wait_deep_down();
    puts("went on");
    fflush(stdout);
    return 0;
}
