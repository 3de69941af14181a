// works: calls the library's function for each byte of standard input.
#include <unistd.h>

int work(void);

int main(void) {
    char byte;
    int done = 0;
    while (read(0, &byte, 1) == 1)
        done += work();
    return done > 1000;
}
