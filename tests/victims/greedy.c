// greedy WHAT [COUNT [PROGRAM]]: does one cheap thing over and over until it is killed, to keep whoever records it
// busy.  Prints "ready" when it has begun.
//   segv     takes SIGSEGVs, which it handles        name     gives itself another name
//   names    the same with a second thread           crashes  has children that die of a null write
//   threads  has COUNT threads that sleep            forks    has children that end at once
//   clones   has threads that end at once            execs    executes itself
//   copies   executes PROGRAM, a copy of itself made anew each time (COUNT: none)
//   users    sets its user to what it is             chdirs   changes its directory
//   maps     maps its executable, and unmaps it      ignored  sends itself SIGWINCH, which is ignored
#define _GNU_SOURCE
#include "die.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf again;
static unsigned long count;

static void handled(int number)
{
    (void)number;
    siglongjmp(again, 1);
}

static void *sleeps(void *nothing)
{
    pause();
    return nothing;
}

static void *ends(void *nothing)
{
    return nothing;
}

static void rename_itself(void)
{
    char name[16];
    snprintf(name, sizeof(name), "n%lu", count++);
    prctl(PR_SET_NAME, name, 0, 0, 0);
}

static void copy_and_execute(const char *copy, char **argv)
{
    struct stat whole;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char next[4096];
    snprintf(next, sizeof(next), "%s.next", copy);
    int to = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (from < 0 || to < 0 || fstat(from, &whole) || sendfile(to, from, NULL, whole.st_size) != whole.st_size)
        _exit(2);
    close(to);
    rename(next, copy);
    execv(copy, argv);
    _exit(2);
}

static void once(const char *what, char **argv)
{
    pthread_t thread;
    pid_t child;
    if (!strcmp(what, "segv")) {
        *(volatile int *)0 = 1;
    } else if (!strcmp(what, "name") || !strcmp(what, "names")) {
        rename_itself();
    } else if (!strcmp(what, "crashes") || !strcmp(what, "forks")) {
        child = fork();
        if (child == 0) {
            if (*what == 'c')
                write_through_null();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    } else if (!strcmp(what, "clones")) {
        if (pthread_create(&thread, NULL, ends, NULL) == 0)
            pthread_join(thread, NULL);
    } else if (!strcmp(what, "execs")) {
        execv("/proc/self/exe", argv);
    } else if (!strcmp(what, "copies")) {
        copy_and_execute(argv[3], argv);
    } else if (!strcmp(what, "users")) {
        setresuid(getuid(), getuid(), getuid());
    } else if (!strcmp(what, "chdirs")) {
        if (chdir("/"))
            _exit(2);
    } else if (!strcmp(what, "maps")) {
        int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0), 4096);
        close(file);
    } else if (!strcmp(what, "ignored")) {
        raise(SIGWINCH);
    } else {
        pause();
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (!strcmp(argv[1], "segv"))
        signal(SIGSEGV, handled);
    long threads = !strcmp(argv[1], "names") ? 1 : !strcmp(argv[1], "threads") && argc > 2 ? atol(argv[2]) : 0;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, sleeps, NULL))
            return 2;
    }
    if (!getenv("GREEDY_AGAIN")) { /* not for each program that it executes */
        puts("ready");
        fflush(stdout);
        setenv("GREEDY_AGAIN", "1", 1);
    }
    sigsetjmp(again, 1);
    for (;;)
        once(argv[1], argv);
}
