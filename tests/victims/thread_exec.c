// thread_exec PROGRAM ARG…: a thread that is not the leader execs.  The kernel ends the
// others and gives it the leader's tid.  Prints both tids before.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *exec_from_here(void *command)
{
    char **argv = command;
    dprintf(STDOUT_FILENO, "leader %d thread %d\n", getpid(), gettid());
    execv(argv[0], argv);
    _exit(3);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 2 || pthread_create(&thread, NULL, exec_from_here, argv + 1))
        return 2;
    pthread_join(thread, NULL);
}
