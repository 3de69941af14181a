// Calls of a function, as many as the next line of its input says: "COUNT FUNCTION".  Answers with ns a call.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pin.h"

// In assembly, for the first instruction decides what a probe there costs.
__asm__(".text\n"
        ".globl emulated, stepped\n"
        ".type emulated, @function\n"
        ".type stepped, @function\n"
        "emulated: push %rbx\n" // which the kernel carries out itself
        "pop %rbx\n"
        "lea 1(%rdi), %rax\n"
        "ret\n"
        ".size emulated, . - emulated\n"
        "stepped: lea 1(%rdi), %rax\n" // which it has the processor step through
        "ret\n"
        ".size stepped, . - stepped\n");
long emulated(long), stepped(long);

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // what others do meanwhile is not ours
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(void) {
    char name[32];
    long count;
    pin();
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (scanf("%ld %31s", &count, name) == 2) {
        long (*volatile function)(long) = strcmp(name, "stepped") ? emulated : stepped;
        double begin = now_ns();
        for (long i = 0, value = 0; i < count; ++i)
            value = function(value);
        printf("%.2f\n", (now_ns() - begin) / count);
    }
}
