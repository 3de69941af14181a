// Syscalls by hand, for programs without a libc.
#pragma once

#include <asm/unistd.h>

static inline long syscall6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

// Calls main_with(argc, argv) on an aligned stack; it does not return.
#define START_AT(main_with)                                                                                            \
    __asm__(".globl _start\n_start:\n"                                                                                 \
            "xor %ebp, %ebp\n"                                                                                         \
            "mov (%rsp), %rdi\n"                                                                                       \
            "lea 8(%rsp), %rsi\n"                                                                                      \
            "and $-16, %rsp\n"                                                                                         \
            "call " #main_with "\n"                                                                                    \
            "ud2\n")
