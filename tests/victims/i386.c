// i386 [handler]: a 32-bit program, for kernels that execute such.  It reads a file, and dies of a null write, three
// functions deep; `handler`: in the handler of a signal, on a signal stack.  No libc: neither that nor its headers have
// to be there for -m32.
enum {
    NR_read = 3,
    NR_open = 5,
    NR_close = 6,
    NR_getpid = 20,
    NR_kill = 37,
    NR_rt_sigaction = 174,
    NR_sigaltstack = 186
};
enum { SIGUSR1 = 10, SA_ONSTACK = 0x08000000, STACK_SIZE = 32768 };

struct signal_action { // of the kernel: arch/x86/include/asm/ia32.h
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask[2];
};
struct signal_stack {
    void *start;
    int flags;
    unsigned long size;
};

static char signal_stack_bytes[STACK_SIZE] __attribute__((aligned(16)));
static char text[64];
volatile int sink;

static long call(long number, long a, long b, long c, long d)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d) : "memory");
    return result;
}

__attribute__((noinline)) void writes_through_null(int *where, int what)
{
    *where = what;
    sink = what;
}

__attribute__((noinline)) void middle(int *where, int what)
{
    volatile char room[40];
    room[what & 31] = (char)what;
    writes_through_null(where, what + room[what & 31]);
    sink = room[0];
}

__attribute__((noinline)) void outer(int what)
{
    long file = call(NR_open, (long)"/etc/hostname", 0, 0, 0);
    call(NR_read, file, (long)text, sizeof text, 0);
    call(NR_close, file, 0, 0, 0);
    middle((int *)0x1d0, what);
    sink = what;
}

void handle(int number)
{
    outer(number);
    sink = number;
}

__attribute__((noinline)) void interrupted(int number)
{
    call(NR_kill, call(NR_getpid, 0, 0, 0, 0), number, 0, 0);
    sink = number;
}

__attribute__((used, noreturn)) void begin(int count)
{
    if (count > 1) {
        struct signal_stack stack = {signal_stack_bytes, 0, STACK_SIZE};
        struct signal_action action = {handle, SA_ONSTACK, 0, {0, 0}};
        call(NR_sigaltstack, (long)&stack, 0, 0, 0);
        call(NR_rt_sigaction, SIGUSR1, (long)&action, 0, 8);
        interrupted(SIGUSR1);
    }
    outer(count);
    __builtin_trap();
}

// The stack begins with the number of arguments.
__asm__(".globl _start\n_start:\n\txorl %ebp, %ebp\n\tpushl (%esp)\n\tcall begin\n\thlt\n");
