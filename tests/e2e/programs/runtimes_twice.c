// Maps its own code once more, as V8 does with that of its builtins, and dies in the copy.
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) int inner(volatile int *at) {
    return *at + 1;
}

__attribute__((noinline)) int outer(volatile int *at) {
    return inner(at) + 2;
}

static int copied(struct dl_phdr_info *program, size_t size, void *into) {
    (void)size;
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        char *copy = mmap(NULL, segment->p_filesz, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, segment->p_offset);
        *(char **)into = copy + ((char *)outer - (char *)(program->dlpi_addr + segment->p_vaddr));
        return 1; // the program comes first
    }
    return 1;
}

int main(void) {
    int (*in_copy)(volatile int *) = NULL;
    dl_iterate_phdr(copied, &in_copy);
    puts("ready");
    fflush(stdout);
    char byte;
    if (read(0, &byte, 1) < 0)
        return 1;
    return in_copy(NULL) + 3;
}
