// Programs in trouble that live on, or end without a signal:
//   trouble exit STATUS            ends with that status, from a function of its own
//   trouble open PATH TIMES        opens PATH (in vain) that often
//   trouble pipe MS                one thread reads a pipe, another writes to it after MS
//   trouble nap MS                 sleeps in a call that is no idle wait (fcntl lock held by a child)
//   trouble grow MIB MS            touches MIB more memory, a MiB every MS, then waits
//   trouble threads N MIB          N threads in a mutex; the main thread eats MIB of memory
//   trouble rename NAME            gives itself another name (task:task_rename)
//   trouble wait                   waits for its standard input to end
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2];
static long delay_ms;

static void sleep_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void say_tid(const char *what)
{
    printf("%s %ld\n", what, syscall(SYS_gettid));
    fflush(stdout);
}

__attribute__((noinline)) static void leave(int status)
{
    exit(status);
}

static void *write_later(void *unused)
{
    say_tid("writer");
    sleep_ms(delay_ms);
    if (write(ends[1], "x", 1) != 1)
        abort();
    return unused;
}

static int read_a_pipe(void)
{
    pthread_t writer;
    char byte;
    if (pipe(ends) || pthread_create(&writer, NULL, write_later, NULL))
        return 2;
    pthread_setname_np(writer, "writer");
    say_tid("reader");
    if (read(ends[0], &byte, 1) != 1)
        return 2;
    pthread_join(writer, NULL);
    return 0;
}

// The lock is held by a child, which is told to sleep before it lets go.
static int wait_for_a_lock(long ms)
{
    char name[] = "/tmp/trouble.XXXXXX", byte;
    int file = mkstemp(name);
    struct flock lock = {.l_type = F_WRLCK};
    if (file < 0 || pipe(ends) || unlink(name))
        return 2;
    pid_t child = fork();
    if (child == 0) {
        fcntl(file, F_SETLKW, &lock);
        if (write(ends[1], "x", 1) != 1)
            _exit(2);
        sleep_ms(ms);
        _exit(0);
    }
    if (read(ends[0], &byte, 1) != 1)
        return 2;
    say_tid("waiting");
    fcntl(file, F_SETLKW, &lock);
    waitpid(child, NULL, 0);
    return 0;
}

static void grow(long mib, long ms)
{
    char *memory = mmap(NULL, (size_t)mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(2);
    for (long i = 0; i < mib; i++) {
        memset(memory + (i << 20), 1, 1 << 20);
        if (ms)
            sleep_ms(ms);
    }
}

static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_ever(void *unused)
{
    pthread_mutex_lock(&never);
    return unused;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const char *what = argv[1];
    long first = argc > 2 ? atol(argv[2]) : 0, second = argc > 3 ? atol(argv[3]) : 0;
    say_tid("main");
    if (!strcmp(what, "exit"))
        leave((int)first);
    if (!strcmp(what, "open")) {
        for (long i = 0; i < second; i++)
            if (open(argv[2], O_RDONLY) >= 0)
                return 2;
        return 0;
    }
    if (!strcmp(what, "pipe")) {
        delay_ms = first;
        return read_a_pipe();
    }
    if (!strcmp(what, "nap"))
        return wait_for_a_lock(first);
    if (!strcmp(what, "grow"))
        grow(first, second);
    if (!strcmp(what, "threads")) {
        pthread_t thread;
        pthread_mutex_lock(&never);
        for (long i = 0; i < first; i++)
            if (pthread_create(&thread, NULL, wait_for_ever, NULL))
                return 2;
        grow(second, 0);
    }
    if (!strcmp(what, "rename")) {
        prctl(PR_SET_NAME, argv[2]);
        return 0;
    }
    while (getchar() != EOF)
        ;
    return 0;
}
