// Programs that are blocked in calls for as long as the test wants:
//   callers THREADS NAME [KIND]   THREADS threads that read(2) standard input, a byte at a time, until it ends
//   callers told NAME             does what each byte of standard input says, and answers with it:
//                                 s   makes a call that takes 50 ms (nanosleep)
//                                 h   handles SIGABRT from now on   i   ignores it   b   blocks it
//                                 u   goes on as the user nobody, and may be dumped still
//                                 p   is called "protected" from now on
//                                 l   limits its cores to a byte (RLIMIT_CORE)
//   callers family NAME CHILDREN  makes children whose four threads exit at the same moment, one after the other, then
//                                 reads a byte and aborts
// NAME becomes its comm.  KIND: "handles" or "ignores" SIGABRT from the start, "limited" has RLIMIT_CORE 1.
// Whoever handles SIGABRT ends with 99 when it comes.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void come(int signal)
{
    (void)signal;
    _exit(99);
}

static void limit_cores(void)
{
    struct rlimit limit = {1, 1};
    setrlimit(RLIMIT_CORE, &limit);
}

__attribute__((noinline)) static int wait_for_byte(void)
{
    char byte;
    ssize_t got = read(0, &byte, 1);
    __asm__ volatile("" ::: "memory");
    return got == 1;
}

static void *call(void *unused)
{
    while (wait_for_byte())
        ;
    return unused;
}

static int do_as_told(void)
{
    char byte;
    while (read(0, &byte, 1) == 1) {
        if (byte == 's') {
            struct timespec time = {0, 50000000};
            nanosleep(&time, NULL);
        } else if (byte == 'h') {
            signal(SIGABRT, come);
        } else if (byte == 'i') {
            signal(SIGABRT, SIG_IGN);
        } else if (byte == 'b') {
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGABRT);
            sigprocmask(SIG_BLOCK, &set, NULL);
        } else if (byte == 'p') {
            prctl(PR_SET_NAME, "protected");
        } else if (byte == 'u') {
            if (setresuid(65534, 65534, 65534) || prctl(PR_SET_DUMPABLE, 1))
                return 2;
        } else if (byte == 'l') {
            limit_cores();
        }
        if (write(1, &byte, 1) != 1)
            return 2;
    }
    return 0;
}

static atomic_int here;

static void *exit_together(void *unused)
{
    atomic_fetch_add(&here, 1);
    while (atomic_load(&here) < 4)
        ;
    syscall(SYS_exit, 0); // the thread's own, as pthread_exit does in the end
    return unused;
}

static int have_children(int children)
{
    char byte;
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (child < 0)
            return 2;
        if (child == 0) {
            pthread_t thread;
            for (int j = 0; j < 3; j++)
                if (pthread_create(&thread, NULL, exit_together, NULL))
                    _exit(2);
            exit_together(NULL);
        }
        if (waitpid(child, NULL, 0) != child)
            return 2;
    }
    if (write(1, "r", 1) != 1 || read(0, &byte, 1) < 0)
        return 2;
    abort();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    prctl(PR_SET_NAME, argv[2]);
    if (argc > 3 && !strcmp(argv[3], "handles"))
        signal(SIGABRT, come);
    if (argc > 3 && !strcmp(argv[3], "ignores"))
        signal(SIGABRT, SIG_IGN);
    if (argc > 3 && !strcmp(argv[3], "limited"))
        limit_cores();
    if (!strcmp(argv[1], "told"))
        return do_as_told();
    if (!strcmp(argv[1], "family"))
        return have_children(argc > 3 ? atoi(argv[3]) : 1);
    int threads = atoi(argv[1]);
    pthread_t thread;
    for (int i = 1; i < threads; i++)
        if (pthread_create(&thread, NULL, call, NULL))
            return 2;
    if (write(1, "r", 1) != 1)
        return 2;
    call(NULL);
    return 0;
}
