// Signals that do not kill:
//   handled segv TIMES      faults TIMES times, each handled with siglongjmp; exits 0
//   handled ignore SIGNAL   ignores SIGNAL, sends it to itself; exits 0
//   handled once SIGNAL     handles the first SIGNAL, is killed by the second (SA_RESETHAND)
#define _GNU_SOURCE
#include "die.h"

#include <setjmp.h>
#include <unistd.h>

static sigjmp_buf resume;

static void jump_back(int number)
{
    (void)number;
    siglongjmp(resume, 1);
}

static void do_nothing(int number)
{
    (void)number;
}

static void survive_faults(int times)
{
    struct sigaction action = {.sa_handler = jump_back};
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int i = 0; i < times; i++)
        if (!sigsetjmp(resume, 1))
            write_through_null();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (!strcmp(argv[1], "segv")) {
        survive_faults(atoi(argv[2]));
        return 0;
    }
    int number = signal_by_name(argv[2]);
    if (!strcmp(argv[1], "ignore")) {
        signal(number, SIG_IGN);
        kill(getpid(), number);
        return 0;
    }
    if (!strcmp(argv[1], "once")) {
        struct sigaction action = {.sa_handler = do_nothing, .sa_flags = (int)SA_RESETHAND};
        sigaction(number, &action, NULL);
        kill(getpid(), number);
        kill(getpid(), number);
    }
    return 2;
}
