// die KIND [wait]: dies in the one way named.  Prints the address it will fault at,
// where it is known.  With `wait` it first says so and reads its standard input to
// the end: the test decides when it dies.
#define _GNU_SOURCE
#include "die.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say_address(const volatile void *address)
{
    dprintf(STDOUT_FILENO, "address %#lx\n", (unsigned long)address);
}

static void null_read(void)
{
    say_address((void *)NULL_MEMBER);
    (void)*(volatile int *)NULL_MEMBER;
}

static void null_write(void)
{
    say_address((void *)NULL_MEMBER);
    write_through_null();
}

static void null_jump(void)
{
    void (*volatile nowhere)(void) = NULL;
    say_address(NULL);
    nowhere();
}

static void write_to_read_only(void)
{
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say_address(page + 5);
    ((volatile char *)page)[5] = 1;
}

// A mapped page beyond the end of its file.
static void bus_error(void)
{
    int fd = memfd_create("short", 0);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    say_address(page);
    (void)*(volatile char *)page;
}

static void divide_by_zero(void)
{
    volatile int number = 7, zero = 0;
    volatile int result = number / zero;
    (void)result;
}

static void illegal_instruction(void)
{
    __asm__ volatile("ud2");
}

// Killed by its own seccomp filter when it asks for getppid.
static void forbidden_syscall(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof program / sizeof *program, .filter = program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    syscall(SYS_getppid);
}

static int recurse(volatile char *above)
{
    volatile char frame[4096];
    frame[0] = *above;
    return recurse(frame) + frame[0];
}

static void stack_overflow(void)
{
    volatile char first = 0;
    recurse(&first);
}

static void not_dumpable(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    null_write();
}

static const struct way {
    const char *name;
    void (*die)(void);
} ways[] = {
    {"null-read", null_read},
    {"null-write", null_write},
    {"null-jump", null_jump},
    {"read-only", write_to_read_only},
    {"bus", bus_error},
    {"fpe", divide_by_zero},
    {"ill", illegal_instruction},
    {"sys", forbidden_syscall},
    {"abort", abort},
    {"stack-overflow", stack_overflow},
    {"not-dumpable", not_dumpable},
};

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[2], "wait")) {
        char end;
        dprintf(STDOUT_FILENO, "ready\n");
        while (read(STDIN_FILENO, &end, 1) > 0)
            ;
    }
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name))
            ways[i].die();
    return 2;
}
