// storm COUNT [PROGRAM ARG…]: COUNT children that all die at once, by a null write or
// as PROGRAM does.  They wait at a pipe until the last is born.  Prints each pid,
// then reaps them all.
#include "die.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void die_when_told(int gate, char **program)
{
    char end;
    if (read(gate, &end, 1) != 0)
        _exit(3);
    if (*program)
        execv(*program, program);
    else
        write_through_null();
    _exit(3);
}

int main(int argc, char **argv)
{
    int gate[2];
    int count = argc > 1 ? atoi(argv[1]) : 0;
    if (count < 1 || pipe(gate))
        return 2;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            close(gate[1]);
            die_when_told(gate[0], argv + 2);
        }
        printf("%d\n", pid);
        fflush(stdout);
    }
    close(gate[1]);
    while (wait(NULL) > 0)
        ;
}
