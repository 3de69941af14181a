// Says "ready", and when its input ends dies in a chain of its own functions: gone; or of a library's: gone LIBRARY.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static volatile int depth;

__attribute__((noinline)) static void innermost(int *nowhere) {
    *nowhere = 1;
    depth++;
}

__attribute__((noinline)) static void middle(int *nowhere) {
    innermost(nowhere);
    depth++;
}

__attribute__((noinline)) static void outer(void (*work)(int *)) {
    work(0);
    depth++;
}

int main(int argc, char **argv) {
    void (*work)(int *) = middle;
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library)
            return 2;
        work = (void (*)(int *))dlsym(library, "library_work");
    }
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    outer(work);
    return 0;
}
