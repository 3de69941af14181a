// jumps: as leaves longjmp, in a program in which nothing can throw: its returns are probed by the kernel.
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>

static jmp_buf out;

__attribute__((noinline, noclone)) static void wait_deep_down(void) {
    volatile char room[48 * 1024];
    char c;
    room[0] = 0;
    if (read(0, &c, 1) < 0)
        _exit(1);
    __asm__ volatile("" ::"r"(room) : "memory");
}

__attribute__((noinline, noclone)) long handle(long ms) {
    usleep(ms * 1000);
    if (ms)
        longjmp(out, 1);
    return 1;
}

int main(void) {
    puts("ready");
    fflush(stdout);
    getchar();
    for (volatile int i = 0; i < 20; ++i)
        if (!setjmp(out))
            handle(1);
    wait_deep_down();
    handle(0);
    puts("went on");
    fflush(stdout);
    wait_deep_down();
    return 0;
}
