// attacker THREADS CRASHER ARG…: one user who does all at once what may keep incidentd from others: faults that it
// handles in a loop, crashes of a program that others run too, THREADS sleeping threads, names without end, and
// programs that start and end.  Writes "ready" once all of it has begun; goes on until its standard input ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf again;

static void handle(int number) {
    (void)number;
    siglongjmp(again, 1);
}

static void faults(void) {
    signal(SIGSEGV, handle);
    for (;;)
        if (!sigsetjmp(again, 1))
            *(volatile int *)8 = 1;
}

static void crashes(char **program) {
    for (;;) {
        const pid_t child = vfork();
        if (child == 0) {
            execv(program[0], program);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
}

static void names(void) {
    char name[16];
    for (unsigned i = 0;; ++i) {
        snprintf(name, sizeof name, "n%u", i);
        prctl(PR_SET_NAME, name);
    }
}

static void programs(const char *self) {
    for (;;) {
        const pid_t child = vfork();
        if (child == 0) {
            execl(self, self, "end", (char *)NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
}

static void *sleeps(void *nothing) {
    for (;;)
        pause();
    return nothing;
}

static void threads(int count, int told) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int i = 0; i < count; ++i) {
        pthread_t thread;
        if (pthread_create(&thread, &small, sleeps, NULL) != 0)
            break;
    }
    if (write(told, "t", 1) == 1)
        sleeps(NULL);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 0; // "end"
    static char self[4096];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    setpgid(0, 0);
    int told[2];
    const int nowhere = open("/dev/null", O_WRONLY);
    if (pipe(told) != 0 || nowhere < 0)
        return 1;
    for (int part = 0; part < 5; ++part) {
        if (fork() != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(nowhere, 1); // what its programs say is nothing to the test
        if (part == 0)
            threads(atoi(argv[1]), told[1]);
        else if (part == 1)
            crashes(argv + 2);
        else if (part == 2)
            names();
        else if (part == 3)
            programs(self);
        else
            faults();
    }
    char byte;
    if (read(told[0], &byte, 1) != 1)
        return 1;
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    kill(0, SIGKILL); // its group
}
