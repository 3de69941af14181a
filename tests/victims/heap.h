// What the programs "heap…" share.  Each waits for a line of its standard input ("ready" is its own) before
// it allocates anything that counts, and for another one before it dies, so that a test knows when it is
// watched.  Nothing here calls malloc: what is said is written with write(2).
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <unistd.h>

#define SITE extern "C" __attribute__((noinline, noipa))

// After the call, so that it is none in tail position: the site has its own frame.
#define KEEP_FRAME() asm volatile("" ::: "memory")

__attribute__((format(printf, 1, 2))) inline void say(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[length] = '\n';
    if (write(STDOUT_FILENO, line, length + 1) != length + 1)
        _exit(3);
}

// True if there was a line: false at the end.  A process is looked at when it makes a system call: one that
// began before the daemon makes some while it waits.
inline bool wait_for_line(const char *ready = "ready")
{
    say("%s", ready);
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    char c = 0;
    for (;;)
        if (poll(&input, 1, 20) > 0) {
            if (read(STDIN_FILENO, &c, 1) != 1)
                return false;
            if (c == '\n')
                return true;
        }
}

// heap_bugs.cpp
int use_after_free(const char *how, std::size_t size);
int double_free();
int overrun(const char *how);
int leak(long total);
int window(long before, long after);
int stacks(long ways);

// heap_account.cpp
int account(int threads, long calls);
int reuse(int threads, long calls);
int dying_threads(int threads, long each);
int inherited(long count);

// heap_family.cpp
int family();
int failing();
int jumping();
