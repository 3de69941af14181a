// switching: a library that goes over to another stack, by code of its own.
void switch_to(void **from, void **to);
__asm__(".text\n.globl switch_to\n.type switch_to, @function\nswitch_to:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov (%rsi), %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size switch_to, . - switch_to\n");
