// hungry THREADS MIB [hold]: takes MIB mebibytes, one at a time, in a thread named "eater",
// beside THREADS that wait in read on a pipe.  Prints `tid role` for each thread, "full"
// when all of it is taken, and ends then, or with "hold" only when it is killed.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_THREADS = 512, MIB = 1 << 20 };

static int never_written[2];
static pthread_barrier_t all_there;

static void *wait_in_read(void *unused)
{
    dprintf(STDOUT_FILENO, "%d read\n", gettid());
    pthread_barrier_wait(&all_there);
    char byte;
    while (read(never_written[0], &byte, 1) < 0)
        ;
    return unused;
}

static void *eat(void *mebibytes)
{
    dprintf(STDOUT_FILENO, "%d eater\n", gettid());
    pthread_barrier_wait(&all_there);
    for (long left = (long)mebibytes; left > 0; left--) {
        char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            exit(1);
        memset(at, 1, MIB);
    }
    dprintf(STDOUT_FILENO, "full\n");
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? atoi(argv[1]) : -1;
    if (threads < 0 || threads > MAX_THREADS || pipe(never_written))
        return 2;
    pthread_barrier_init(&all_there, NULL, threads + 1);
    pthread_t thread;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, wait_in_read, NULL))
            return 2;
    if (pthread_create(&thread, NULL, eat, (void *)atol(argv[2])))
        return 2;
    pthread_setname_np(thread, "eater");
    pthread_join(thread, NULL);
    while (argc > 3 && !strcmp(argv[3], "hold"))
        pause();
}
