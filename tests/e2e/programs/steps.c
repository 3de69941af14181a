// steps: a library without anything unusual in it, whose function calls back, as sqlite3_step does.
void *returns_to; // the last call's return address as it stands on the stack

__attribute__((noinline)) long step(long (*callback)(long), long argument) {
    returns_to = __builtin_return_address(0);
#ifdef TABLE // data amid the code: what comes behind it cannot be told
    __asm__ volatile("jmp 1f\n.byte 0x06\n1:");
#endif
    return callback(argument) + 1;
}
