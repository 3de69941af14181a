/* A C library that calls back, for programs of other languages: its functions bear a probe of their return. */
#include <unistd.h>

/* Returns once a breakpoint stands at the beginning of the function; ends the process where none comes. */
void wait_until_probed(const volatile unsigned char *function) {
    for (int waited_ms = 0;; waited_ms++) {
        if (waited_ms > 60000)
            _exit(3);
        for (int i = 0; i < 8; i++) /* behind an endbr64 it is the fifth */
            if (function[i] == 0xcc)
                return;
        usleep(1000);
    }
}

volatile int visited;

__attribute__((noinline)) int visit(int depth, int (*each)(int)) {
    int result = depth ? visit(depth - 1, each) : each(depth);
    visited = result; /* so that no loop is made of it */
    return result + 1;
}
