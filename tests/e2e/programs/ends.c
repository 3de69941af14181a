// ends HOW: handle() is left after a millisecond by what ends or doubles who runs it, then all that is left waits for
// standard input far down the stack:
//   exec      the process executes itself anew
//   exit      the thread ends by its own system call
//   fork      a child is made, which returns from handle() as its parent does
//   forked    a child is made, which stays in handle(); its parent returns
//   vfork     a child is made that executes another program, which runs on
//   spawned   the same by posix_spawn
//   hangs     not at all: handle() itself waits
// Children end with their parent.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static const char *how;
static char *program;
extern char **environ;

static int is(const char *name) {
    return !strcmp(how, name);
}

APART static void wait_deep_down(void) {
    volatile char room[48 * 1024];
    char c;
    room[0] = 0;
    if (read(0, &c, 1) < 0)
        _exit(1);
    __asm__ volatile("" ::"r"(room) : "memory");
}

static void end_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

APART long handle(long ms) {
    char *anew[] = {program, "again", NULL}, *asleep[] = {"sleep", "60", NULL};
    pid_t child = 0;
    usleep(ms * 1000);
    if (is("hangs"))
        wait_deep_down();
    if (is("exec"))
        execv(program, anew);
    if (is("exit"))
        syscall(SYS_exit, 0);
    if (is("fork") && fork() == 0)
        end_with_parent();
    if (is("forked") && fork() == 0) {
        end_with_parent();
        for (;;)
            pause();
    }
    if (is("vfork") && (child = vfork()) == 0) {
        execvp("sleep", asleep);
        _exit(1);
    }
    if (is("spawned"))
        posix_spawnp(&child, "sleep", NULL, NULL, asleep, environ);
    return child;
}

static void *thread(void *unused) {
    handle(1);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t made;
    long child = 0;
    program = argv[0];
    how = argv[1];
    if (!is("again")) {
        puts("ready");
        fflush(stdout);
        getchar();
        if (is("exit")) {
            pthread_create(&made, NULL, thread, NULL);
            pthread_join(made, NULL);
        } else {
            child = handle(1);
        }
    }
    wait_deep_down();
    if (child > 0)
        kill(child, SIGKILL);
    puts("went on");
    fflush(stdout);
    wait_deep_down();
    return 0;
}
