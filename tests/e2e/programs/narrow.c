/* narrow [null|abort|handler]: built with -m32 by the test.  Dies some frames deep, beside a thread that waits. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *volatile nothing;
volatile int after;

static void *waits(void *unused) {
    sleep(1000);
    return unused;
}

__attribute__((noinline)) void innermost(const char *how) {
    char text[16];
    if (!strcmp(how, "abort"))
        abort();
    snprintf(text, sizeof text, "%s", how);
    nothing[text[0] - text[0]] = 1;
    after = text[0];
}

__attribute__((noinline)) void outer(const char *how) {
    char bytes[8];
    int file = open("/etc/hostname", O_RDONLY);
    after = (int)read(file, bytes, sizeof bytes);
    close(file);
    innermost(how);
    after = 1;
}

static void handle(int number) {
    outer("null");
    after = number;
}

__attribute__((noinline)) void interrupted(void) {
    raise(SIGUSR1);
    after = 2;
}

int main(int count, char **arguments) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    pthread_t thread;
    if (count < 2)
        return 0;
    pthread_create(&thread, 0, waits, 0);
    usleep(100000);
    if (!strcmp(arguments[1], "handler")) {
        stack_t on = {.ss_sp = stack, .ss_size = sizeof stack};
        struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
        sigaltstack(&on, 0);
        sigaction(SIGUSR1, &action, 0);
        interrupted();
    }
    outer(arguments[1]);
    return after;
}
