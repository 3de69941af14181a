// The ways to die that several victims share.
#pragma once

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// An address of the never-mapped first page: what following a null pointer to a
// structure's member looks like.
#define NULL_MEMBER 0x1d0

static inline void write_through_null(void)
{
    *(volatile int *)NULL_MEMBER = 1;
}

struct named_signal {
    const char *name;
    int number;
};

static inline int signal_by_name(const char *name)
{
    static const struct named_signal known[] = {
        {"SIGSEGV", SIGSEGV}, {"SIGABRT", SIGABRT}, {"SIGTERM", SIGTERM}, {"SIGUSR1", SIGUSR1}, {"SIGKILL", SIGKILL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name))
            return known[i].number;
    exit(2);
}
