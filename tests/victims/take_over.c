// take_over PID PROGRAM [ARGUMENT]: makes that process execute a program, with the rights that it has by now, as
// whoever runs code of his own in it could.  It must be stopped in, or come to, user space soon.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static pid_t pid;

static void must(int done, const char *what)
{
    if (done)
        return;
    perror(what);
    exit(1);
}

static void put(uint64_t at, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length; done += sizeof(long)) {
        long word = 0;
        const size_t left = length - done;
        memcpy(&word, (const char *)bytes + done, left < sizeof word ? left : sizeof word);
        must(ptrace(PTRACE_POKEDATA, pid, at + done, word) == 0, "writing to it");
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pid = atoi(argv[1]);
    must(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC) == 0, "seizing it");
    must(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0, "stopping it");
    int status = 0;
    must(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "its stop");
    struct user_regs_struct registers;
    must(ptrace(PTRACE_GETREGS, pid, 0, &registers) == 0, "reading its registers");

    // Below the red zone: the strings, and above them the argument list.
    const uint64_t strings = (registers.rsp - 8192) & ~15ull, list = strings + 4096;
    uint64_t at = strings, arguments[8] = {0};
    for (int i = 2; i < argc && i < 8; ++i) {
        arguments[i - 2] = at;
        put(at, argv[i], strlen(argv[i]) + 1);
        at += (strlen(argv[i]) + 16) & ~7ull;
    }
    put(list, arguments, sizeof arguments);
    static const unsigned char syscall_instruction[8] = {0x0f, 0x05, 0x0f, 0x0b};
    put(registers.rip, syscall_instruction, sizeof syscall_instruction);
    registers.orig_rax = (unsigned long long)-1; // the call it was in is not begun again
    registers.rax = SYS_execve;
    registers.rdi = arguments[0];
    registers.rsi = list;
    registers.rdx = 0;
    must(ptrace(PTRACE_SETREGS, pid, 0, &registers) == 0, "writing its registers");
    must(ptrace(PTRACE_CONT, pid, 0, 0) == 0, "letting it go on");
    must(waitpid(pid, &status, 0) == pid, "its execve");
    if (!WIFSTOPPED(status) || status >> 16 != PTRACE_EVENT_EXEC) {
        fprintf(stderr, "it did not execute %s: status %#x\n", argv[2], (unsigned)status);
        return 1;
    }
    must(ptrace(PTRACE_DETACH, pid, 0, 0) == 0, "leaving it");
    return 0;
}
