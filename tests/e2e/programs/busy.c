// A load that a test turns off and on by SIGSTOP and SIGCONT, and ends by whatever signal it likes.
//   busy calls    calls busy_call() as fast as it can
//   busy heap     allocates and frees as fast as it can
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// It begins with an instruction that a uprobe need not single-step: that costs as much as a hundred calls.
__attribute__((noinline, patchable_function_entry(1))) long busy_call(long n) {
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    const int heap = strcmp(argv[1], "heap") == 0;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 3;
    for (long n = 0;;) {
        n = busy_call(n);
        if (heap) {
            void *volatile p = malloc(64);
            free(p);
        }
    }
}
