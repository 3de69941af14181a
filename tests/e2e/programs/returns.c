/* Calls whose return looks unlike their entry; ends in a null write unless said otherwise.
 *   returns signals N   a handler is entered and left N times
 *   returns table      one getppid call of the 32-bit table, and lives: whether the kernel has it
 *   returns compat N    N getppid calls of the 32-bit table, and a fork of it
 *   returns forks N     N children made with each of fork, vfork and clone; nobody else calls waitid
 *   returns brk BYTES   the break grows by so much, twice
 *   returns exec        the same program once more, which dies
 *   returns waits       a thread waits for ever in nanosleep() while another takes SIGUSR1, and lives */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GETPPID_IA32 = 64, FORK_IA32 = 2, EXIT_IA32 = 1 }; /* arch/x86/entry/syscalls/syscall_32.tbl */

static long int80(long number, long first) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first) : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static void handle(int signal) {
    (void)signal;
}

static void reap(long child) {
    if (child == 0)
        _exit(0);
    waitid(P_PID, child, 0, WEXITED);
}

static volatile int sleeper;

static void *wait_for_ever(void *unused) {
    struct timespec time = {1000000, 0};
    sleeper = gettid();
    nanosleep(&time, 0);
    return unused;
}

/* Behind the number stands the state: S, asleep. */
static char state_of(int tid) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file) && strrchr(text, ')'))
        text[0] = strrchr(text, ')')[2];
    if (file)
        fclose(file);
    return text[0];
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long count = argc > 2 ? atol(argv[2]) : 0;
    if (!strcmp(what, "signals")) {
        signal(SIGUSR1, handle);
        for (long i = 0; i < count; i++)
            syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
    } else if (!strcmp(what, "table")) {
        return int80(GETPPID_IA32, 0) != getppid();
    } else if (!strcmp(what, "compat")) {
        for (long i = 0; i < count; i++)
            int80(GETPPID_IA32, 0);
        long child = int80(FORK_IA32, 0);
        if (child == 0)
            int80(EXIT_IA32, 0);
        waitid(P_PID, child, 0, WEXITED);
    } else if (!strcmp(what, "forks")) {
        for (long i = 0; i < count; i++) {
            reap(syscall(SYS_fork));
            reap(vfork());
            reap(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
        }
    } else if (!strcmp(what, "brk")) {
        long end = syscall(SYS_brk, 0);
        end = syscall(SYS_brk, end + count);
        syscall(SYS_brk, end + count);
    } else if (!strcmp(what, "exec")) {
        execl("/proc/self/exe", "again", "dies", (char *)0);
    } else if (!strcmp(what, "waits")) {
        pthread_t thread;
        signal(SIGUSR1, handle);
        pthread_create(&thread, 0, wait_for_ever, 0);
        while (!sleeper || state_of(sleeper) != 'S')
            ;
        syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
        printf("%d\n", sleeper);
        fflush(stdout);
        pause();
    }
    *(volatile int *)0 = 1;
}
