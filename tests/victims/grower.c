// grower: changes its address space by known amounts, one call each, and aborts.
// Prints each call's name, size and result before the next one.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB (1ul << 20)

static void say(const char *call, long delta, long result)
{
    char line[96];
    int length = snprintf(line, sizeof line, "%s %ld %#lx\n", call, delta, result);
    if (write(STDOUT_FILENO, line, length) != length)
        _exit(3);
}

int main(void)
{
    long top = syscall(SYS_brk, 0);
    long raised = syscall(SYS_brk, top + 3 * MIB);
    long mapped = syscall(SYS_mmap, 0, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset((void *)mapped, 1, 2 * MIB);
    long moved = syscall(SYS_mremap, mapped, 8 * MIB, 16 * MIB, MREMAP_MAYMOVE);
    syscall(SYS_munmap, moved + 12 * MIB, 4 * MIB);
    say("brk", 3 * MIB, raised);
    say("mmap", 8 * MIB, mapped);
    say("mremap", 8 * MIB, moved);
    say("munmap", -4 * (long)MIB, moved + 12 * MIB);
    abort();
}
