// crowd COUNT: so many children that each make a call and then wait.  Says "ready MS" when all of them do, MS since the
// first was made; lets them go with the end of its input.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 0, done[2];
    double begin = now_ms();
    if (pipe(done))
        return 1;
    for (int i = 0; i < count; ++i) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            kill(0, SIGTERM);
            return 1;
        }
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            syscall(SYS_getppid);
            if (write(done[1], "", 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
    }
    for (int i = 0; i < count;) {
        char bytes[4096];
        ssize_t got = read(done[0], bytes, sizeof bytes);
        if (got <= 0)
            return 1;
        i += got;
    }
    printf("ready %.1f\n", now_ms() - begin);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    while (wait(NULL) > 0)
        ;
    return 0;
}
