// opener WHAT…: opens what it is told, one call each, says the result, and dies.
//   read:PATH     open(PATH, O_RDONLY|O_CLOEXEC)
//   create:PATH   open(PATH, O_WRONLY|O_CREAT|O_TRUNC, 0600)
//   in:DIR:NAME   openat(an fd of DIR, NAME, O_RDONLY)
//   how:PATH      openat2(AT_FDCWD, PATH, {O_RDONLY})
// Each line it prints: the raw result (an fd or -errno).
#define _GNU_SOURCE
#include "die.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static long result(long value)
{
    return value < 0 ? -errno : value;
}

static long open_in(char *where)
{
    char *name = strchr(where, ':');
    *name++ = '\0';
    int dir = open(where, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return result(openat(dir, name, O_RDONLY));
}

static long open_as_told(char *what)
{
    char *rest = strchr(what, ':') + 1;
    if (!strncmp(what, "read:", 5))
        return result(open(rest, O_RDONLY | O_CLOEXEC));
    if (!strncmp(what, "create:", 7))
        return result(open(rest, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    if (!strncmp(what, "in:", 3))
        return open_in(rest);
    struct open_how how = {.flags = O_RDONLY};
    return result(syscall(SYS_openat2, AT_FDCWD, rest, &how, sizeof how));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        dprintf(STDOUT_FILENO, "%ld\n", open_as_told(argv[i]));
    write_through_null();
}
