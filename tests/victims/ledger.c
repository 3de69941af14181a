// ledger THREADS CALLS blocked|running: a program whose every syscall is counted.
//
// It forks a child that starts THREADS threads; thread i makes CALLS + i getppid calls.
// Then each blocks in a futex (`blocked`) or goes on calling until killed (`running`),
// and the child's first thread dies of a null write.  The counts live in memory shared
// with the parent, which prints them when the child is gone:
//     pid PID
//     TID ENTERED RETURNED      (one line a thread, the first thread first)
// A count starts with the thread's birth.  ENTERED is raised before a call, RETURNED
// after it; for a thread killed between the two lines of code ENTERED may be one too high.
//
// No libc, so that nothing makes a call which is not counted.
#include "syscalls.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <stddef.h>

START_AT(begin);

enum { MAX_THREADS = 256, STACK_SIZE = 8192, PROT_READ_WRITE = 3, MAP_SHARED_ANONYMOUS = 0x21, SIGCHLD = 17 };

struct account {
    volatile long tid; // the kernel writes it: CLONE_PARENT_SETTID
    volatile long entered, returned;
};

static struct account *accounts; // shared with the parent
static char stacks[MAX_THREADS + 1][STACK_SIZE] __attribute__((aligned(16)));
static long calls_each;
static int goes_on;
static volatile int ready;
static int bed, other_bed; // futex words nobody wakes

static long counted(struct account *account, long number, long a, long b, long c, long d, long e)
{
    account->entered++;
    long result = syscall6(number, a, b, c, d, e, 0);
    account->returned++;
    return result;
}

static __attribute__((noreturn)) void thread(long index)
{
    struct account *mine = &accounts[index];
    for (long i = 0; i < calls_each + index; i++)
        counted(mine, __NR_getppid, 0, 0, 0, 0, 0);
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    while (goes_on)
        counted(mine, __NR_getppid, 0, 0, 0, 0, 0);
    counted(mine, __NR_futex, (long)&bed, FUTEX_WAIT, 0, 0, 0);
    __builtin_trap();
}

// The new thread begins in thread(index) on a stack of its own.
static void start_thread(long index)
{
    const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                       CLONE_PARENT_SETTID;
    register long parent_tid __asm__("rdx") = (long)&accounts[index].tid;
    register long child_tid __asm__("r10") = 0;
    register long tls __asm__("r8") = 0;
    register long argument __asm__("r12") = index;
    register void (*body)(long) __asm__("r13") = thread;
    long result;
    accounts[0].entered++;
    __asm__ volatile("syscall\n"
                     "test %%rax, %%rax\n"
                     "jnz 1f\n"
                     "mov %%r12, %%rdi\n"
                     "call *%%r13\n"
                     "1:\n"
                     : "=a"(result)
                     : "a"((long)__NR_clone), "D"(flags), "S"(stacks[index] + STACK_SIZE), "r"(parent_tid),
                       "r"(child_tid), "r"(tls), "r"(argument), "r"(body)
                     : "rcx", "r11", "memory");
    accounts[0].returned++;
}

// FUTEX_CMP_REQUEUE says how many sleepers it moved: when all of them were, all of
// them are inside their last call.
static void wait_until_all_sleep(long threads)
{
    for (long moved = 0; moved < threads;)
        moved += counted(&accounts[0], __NR_futex, (long)&bed, FUTEX_CMP_REQUEUE, 0, threads, (long)&other_bed);
}

static __attribute__((noreturn)) void child(long threads)
{
    accounts[0].tid = counted(&accounts[0], __NR_getpid, 0, 0, 0, 0, 0);
    for (long i = 1; i <= threads; i++)
        start_thread(i);
    while (ready < threads)
        __builtin_ia32_pause();
    if (!goes_on)
        wait_until_all_sleep(threads);
    __asm__ volatile("movl $1, 0x1d0\n");
    __builtin_unreachable();
}

static char *append_number(char *end, long number)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *end++ = digits[--count];
    return end;
}

static void print_line(const char *word, const long *numbers, int count)
{
    char line[128], *end = line;
    while (*word)
        *end++ = *word++;
    for (int i = 0; i < count; i++) {
        if (i > 0)
            *end++ = ' ';
        end = append_number(end, numbers[i]);
    }
    *end++ = '\n';
    syscall6(__NR_write, 1, (long)line, end - line, 0, 0, 0);
}

static long number_in(const char *text)
{
    long number = 0;
    while (*text)
        number = number * 10 + (*text++ - '0');
    return number;
}

__attribute__((used, noreturn)) void begin(long argc, char **argv)
{
    long threads = argc == 4 ? number_in(argv[1]) : 0;
    if (argc != 4 || threads > MAX_THREADS)
        syscall6(__NR_exit_group, 2, 0, 0, 0, 0, 0);
    calls_each = number_in(argv[2]);
    goes_on = argv[3][0] == 'r';
    accounts = (struct account *)syscall6(__NR_mmap, 0, sizeof(struct account) * (MAX_THREADS + 1), PROT_READ_WRITE,
                                          MAP_SHARED_ANONYMOUS, -1, 0);
    long pid = syscall6(__NR_fork, 0, 0, 0, 0, 0, 0);
    if (pid == 0)
        child(threads);
    syscall6(__NR_wait4, pid, 0, 0, 0, 0, 0);
    print_line("pid ", &pid, 1);
    for (long i = 0; i <= threads; i++) {
        const long line[] = {accounts[i].tid, accounts[i].entered, accounts[i].returned};
        print_line("", line, 3);
    }
    syscall6(__NR_exit_group, 0, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}
