// fibers: two coroutines, switched by code of its own as Ruby's are, which are in work() at the same time and leave it
// in the order in which they entered.
#include <stdio.h>

void switch_to(void **from, void **to);
__asm__(".text\n.globl switch_to\n.type switch_to, @function\nswitch_to:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov (%rsi), %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size switch_to, . - switch_to\n");

static void *first, *second;
static void *stack[4096] __attribute__((aligned(16)));

__attribute__((noinline, noclone)) void work(void **from, void **to) {
    switch_to(from, to);
    __asm__ volatile("");
}

static void other(void) {
    work(&second, &first);
    switch_to(&second, &first);
}

int main(void) {
    puts("ready");
    fflush(stdout);
    getchar();
    enum { top = sizeof stack / sizeof *stack - 2, saved = 6 };
    stack[top] = 0;
    stack[top - 1] = (void *)other;
    second = &stack[top - 1 - saved];
    work(&first, &second);      // other() enters it too, and comes back here
    switch_to(&first, &second); // there it leaves it
    puts("went on");
    return 0;
}
