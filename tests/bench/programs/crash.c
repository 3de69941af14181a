// crash THREADS [CALLS]: a child of so many threads, each asleep after CALLS system calls.  Prints the child's pid,
// waits for a line of input, has its first thread write through null, and prints the ms from there until waitpid
// returned.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long calls;
static atomic_int asleep;

static long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void call(void) {
    for (long i = 0; i < calls; ++i)
        syscall(SYS_getppid);
}

static void *sleeper(void *unused) {
    call();
    ++asleep;
    for (;;)
        pause();
    return unused;
}

static void make_threads(int others) {
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < others; ++i)
        if (pthread_create(&thread, &small, sleeper, NULL)) {
            perror("pthread_create");
            exit(1);
        }
    call();
    while (asleep < others)
        usleep(1000);
    usleep(10000); // the last of them is on its way into pause()
}

static void die(int others, volatile long *fault_ns) {
    make_threads(others);
    printf("%d\n", getpid());
    fflush(stdout);
    if (getchar() == EOF)
        exit(1);
    *fault_ns = now_ns();
    *(volatile int *)0 = 1;
    exit(1);
}

int main(int argc, char **argv) {
    const struct rlimit none = {0, 0}; // no file where core_pattern names one; a handler behind a pipe takes it anyway
    volatile long *fault_ns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int threads = argc > 1 ? atoi(argv[1]) : 1, status;
    calls = argc > 2 ? atol(argv[2]) : 0;
    setrlimit(RLIMIT_CORE, &none);
    pid_t child = fork();
    if (child == 0)
        die(threads - 1, fault_ns);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
        return 1;
    printf("%.3f\n", (now_ns() - *fault_ns) / 1e6);
}
