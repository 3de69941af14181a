// A library's slow function, in two builds (PAD) in which it stands at two places.
#include <time.h>

#if PAD
int before(int number) {
    for (int i = 0; i < number; i++)
        number += i * number;
    return number;
}
#endif

int work(void) {
    struct timespec time = {0, 100000000};
    return nanosleep(&time, 0) + 1;
}
