// descriptors COUNT: opens files, sockets and pipes, a third each, until it has so many descriptors.  It says "ready",
// waits for a line on its standard input, and dies of a null write.
#define _GNU_SOURCE
#include "die.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void made(int status, const char *what)
{
    if (status >= 0 || errno == EMFILE)
        return;
    perror(what);
    exit(1);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0, ends[2];
    struct rlimit limit = {.rlim_cur = count, .rlim_max = count};
    made(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
    for (int opened = 0; opened < count; opened += 6) {
        made(open("/etc/hostname", O_RDONLY), "open");
        made(open("/dev/null", O_WRONLY | O_APPEND), "open");
        made(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
        made(pipe(ends), "pipe");
    }
    while (dup(STDIN_FILENO) >= 0) // until there is none left
        ;
    puts("ready");
    fflush(stdout);
    getchar();
    write_through_null();
}
