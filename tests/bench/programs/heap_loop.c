// Pairs of malloc and free, as many as the next line of its input says: "PAIRS BYTES".  Answers with ns per pair.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pin.h"

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // what others do meanwhile is not ours
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(void) {
    long pairs, bytes;
    pin();
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (scanf("%ld %ld", &pairs, &bytes) == 2) {
        double begin = now_ns();
        for (long i = 0; i < pairs; ++i) {
            void *p = malloc(bytes);
            __asm__ volatile("" : : "r"(p) : "memory");
            free(p);
        }
        printf("%.2f\n", (now_ns() - begin) / pairs);
    }
}
