// takes: all its threads block SIGQUIT but the one that waits for it, and does what it is told by it, as mysqld does.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void *take(void *set) {
    int number = 0;
    while (!sigwait(set, &number)) {
        printf("took %d\n", number);
        fflush(stdout);
    }
    return set;
}

int main(void) {
    sigset_t set;
    pthread_t taker;
    char c;
    sigemptyset(&set);
    sigaddset(&set, SIGQUIT);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_create(&taker, 0, take, &set);
    puts("ready");
    fflush(stdout);
    return read(0, &c, 1) < 0;
}
