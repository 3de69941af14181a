// ledger THREADS CALLS blocked|running|waiting|ended [KIND]: a program whose every syscall is counted.
//
// It forks a child that starts THREADS threads; thread i does CALLS + i times what KIND says:
//     calls      getppid (this is meant without a KIND)
//     opens      tries to open /no/such/i/N; of 16 one path is too long, and one unreadable
//     memory     mmap, mremap, munmap and a munmap that fails, by turns
//     signals    sends itself SIGUSR1 or, with a queue of two, SIGRTMIN+2, which it handles
//     children   (the first thread only, CALLS of them) forks a child that exits, and waits
// Then each blocks in a futex or, `running`, goes on with getppid until killed, or, `ended`, exits, which the
// first thread waits for by asking after it (tgkill); and the child's first thread dies of a null write; `waiting`, it
// first says so, reads standard input, and makes CALLS getppid calls.  The counts live in memory shared with the
// parent, which prints them when the child is gone:
//     pid PID
//     TID ENTERED RETURNED EVENTS CUT UNREADABLE      (one line a thread, the first thread first)
// A count starts with the thread's birth.  ENTERED is raised before a call, RETURNED
// after it; for a thread killed between the two lines of code ENTERED may be one too high.
// EVENTS are paths named, changes of the address space, signals handled, or children; of paths
// that many were CUT and UNREADABLE.
//
// No libc, so that nothing makes a call which is not counted.
#include "syscalls.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>

START_AT(begin);

enum { MAX_THREADS = 256, STACK_SIZE = 32768, PAGE = 4096, LONG_PATH = 5000 };
enum { PROT_READ_WRITE = 3, MAP_SHARED_ANONYMOUS = 0x21, MAP_PRIVATE_ANONYMOUS = 0x22, MREMAP_MAY_MOVE = 1 };
enum { AT_CWD = -100, SIGUSR1 = 10, SIGCHLD = 17, SIGRTMIN_2 = 34, SI_QUEUED = -1 };
enum { PR_SET_DUMPABLE = 4, SIG_BLOCK_THESE = 0, SIG_UNBLOCK_THESE = 1 };

struct account {
    volatile long tid; // the kernel writes it: CLONE_PARENT_SETTID
    volatile long entered, returned;
    volatile long events, cut, unreadable;
};

struct signal_action { // of the kernel: arch/x86/include/uapi/asm/signal.h
    void *handler;
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

struct signal_info { // include/uapi/asm-generic/siginfo.h, of a queued signal
    int number, error, code, pad;
    int pid, uid;
    void *value;
    char rest[128 - 32];
};

static struct account *accounts; // shared with the parent
static char stacks[MAX_THREADS + 1][STACK_SIZE] __attribute__((aligned(16)));
static long calls_each;
static int goes_on, waits, ends;
static char kind = 'c';
static char long_path[LONG_PATH + 1];
static volatile int ready;
static int bed, other_bed; // futex words nobody wakes

static long counted(struct account *account, long number, long a, long b, long c, long d, long e)
{
    account->entered++;
    long result = syscall6(number, a, b, c, d, e, 0);
    account->returned++;
    return result;
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

static char *append(char *end, const char *text)
{
    while (*text)
        *end++ = *text++;
    return end;
}

static void try_to_open(struct account *mine, long index, long i)
{
    char path[64];
    char *end = append_number(append(path, "/no/such/"), index);
    *end++ = '/';
    *append_number(end, i) = '\0';
    long place = (long)path;
    if (i % 16 == 5) {
        place = (long)long_path;
        mine->cut++;
    } else if (i % 16 == 11) {
        place = 8; // never mapped
        mine->unreadable++;
    }
    mine->events++;
    counted(mine, __NR_openat, AT_CWD, place, 0, 0, 0);
}

// By turns; the last of them fails, and changes nothing.
static void change_memory(struct account *mine, long i)
{
    static long mapped[MAX_THREADS + 1];
    long *where = &mapped[mine - accounts];
    long result = -1;
    if (i % 4 == 0)
        result = *where = syscall6(__NR_mmap, 0, PAGE, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
    else if (i % 4 == 1)
        result = *where = syscall6(__NR_mremap, *where, PAGE, 3 * PAGE, MREMAP_MAY_MOVE, 0, 0);
    else
        result = syscall6(__NR_munmap, *where + (i % 4 == 3), 3 * PAGE, 0, 0, 0, 0);
    mine->entered++;
    mine->returned++;
    mine->events += result >= 0 || result < -4095;
}

// Ends with rt_sigreturn, a call like others.
static void handle(int number, struct signal_info *info, void *context)
{
    (void)number, (void)context;
    struct account *mine = info->value;
    mine->events++;
    mine->entered++;
    mine->returned++;
}

__asm__("restore: mov $15, %eax\nsyscall\n");
void restore(void);

static void handle_signals(struct account *mine)
{
    const struct signal_action action = {handle, 0x04000004 /* SA_SIGINFO | SA_RESTORER */, restore, ~0ul};
    counted(mine, __NR_rt_sigaction, SIGUSR1, (long)&action, 0, sizeof action.mask, 0);
    counted(mine, __NR_rt_sigaction, SIGRTMIN_2, (long)&action, 0, sizeof action.mask, 0);
}

static void send_signal(struct account *mine, long pid, int number)
{
    struct signal_info info = {.number = number, .code = SI_QUEUED, .pid = (int)pid, .value = mine};
    counted(mine, __NR_rt_tgsigqueueinfo, pid, mine->tid, number, (long)&info, 0);
}

static void signal_itself(struct account *mine, long i)
{
    const unsigned long queued = 1ul << (SIGRTMIN_2 - 1);
    const long pid = counted(mine, __NR_getpid, 0, 0, 0, 0, 0);
    if (i % 2 == 0) {
        send_signal(mine, pid, SIGUSR1);
        return;
    }
    counted(mine, __NR_rt_sigprocmask, SIG_BLOCK_THESE, (long)&queued, 0, sizeof queued, 0);
    send_signal(mine, pid, SIGRTMIN_2);
    send_signal(mine, pid, SIGRTMIN_2);
    counted(mine, __NR_rt_sigprocmask, SIG_UNBLOCK_THESE, (long)&queued, 0, sizeof queued, 0);
}

static void have_a_child(struct account *mine)
{
    mine->entered++;
    long pid = syscall6(__NR_fork, 0, 0, 0, 0, 0, 0);
    if (pid == 0)
        syscall6(__NR_exit_group, 0, 0, 0, 0, 0, 0);
    mine->returned++;
    mine->events++;
    counted(mine, __NR_wait4, pid, 0, 0, 0, 0);
}

static void act(struct account *mine, long index, long i)
{
    if (kind == 'o')
        try_to_open(mine, index, i);
    else if (kind == 'm')
        change_memory(mine, i);
    else if (kind == 's')
        signal_itself(mine, i);
    else
        counted(mine, __NR_getppid, 0, 0, 0, 0, 0);
}

static __attribute__((noreturn)) void thread(long index)
{
    struct account *mine = &accounts[index];
    for (long i = 0; i < calls_each + index; i++)
        act(mine, index, i);
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    if (ends)
        counted(mine, __NR_exit, 0, 0, 0, 0, 0);
    while (goes_on)
        counted(mine, __NR_getppid, 0, 0, 0, 0, 0);
    counted(mine, __NR_futex, (long)&bed, FUTEX_WAIT, 0, 0, 0);
    __builtin_trap();
}

// The new thread begins in thread(index) on a stack of its own.
static void start_thread(long index)
{
    const long flags =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID;
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

static void wait_and_call(void)
{
    char byte;
    counted(&accounts[0], __NR_write, 1, (long)"waiting\n", 8, 0, 0);
    counted(&accounts[0], __NR_read, 0, (long)&byte, 1, 0, 0);
    for (long i = 0; i < calls_each; i++)
        counted(&accounts[0], __NR_getppid, 0, 0, 0, 0, 0);
}

static __attribute__((noreturn)) void child(long threads)
{
    accounts[0].tid = counted(&accounts[0], __NR_getpid, 0, 0, 0, 0, 0);
    if (kind == 's')
        handle_signals(&accounts[0]);
    for (long i = 0; i < calls_each && kind == 'h'; i++)
        have_a_child(&accounts[0]);
    for (long i = 1; i <= threads; i++)
        start_thread(i);
    while (ready < threads)
        __builtin_ia32_pause();
    for (long i = 1; i <= threads && ends; i++)
        while (counted(&accounts[0], __NR_tgkill, accounts[0].tid, accounts[i].tid, 0, 0, 0) == 0)
            ;
    if (!goes_on && !ends)
        wait_until_all_sleep(threads);
    if (waits)
        wait_and_call();
    __asm__ volatile("movl $1, 0x1d0\n");
    __builtin_unreachable();
}

static void print_line(const char *word, const long *numbers, int count)
{
    char line[192], *end = append(line, word);
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
    long threads = argc >= 4 ? number_in(argv[1]) : 0;
    if (argc < 4 || threads > MAX_THREADS)
        syscall6(__NR_exit_group, 2, 0, 0, 0, 0, 0);
    calls_each = number_in(argv[2]);
    goes_on = argv[3][0] == 'r';
    waits = argv[3][0] == 'w';
    ends = argv[3][0] == 'e';
    if (argc > 4)
        kind = argv[4][argv[4][0] == 'c']; // calls: 'a', children: 'h'
    for (long i = 0; i < LONG_PATH; i++)
        long_path[i] = i % 100 ? 'd' : '/';
    accounts = (struct account *)syscall6(__NR_mmap, 0, sizeof(struct account) * (MAX_THREADS + 1), PROT_READ_WRITE,
                                          MAP_SHARED_ANONYMOUS, -1, 0);
    // No core: a handler that goes away while it is written would send SIGPIPE.
    syscall6(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
    long pid = syscall6(__NR_fork, 0, 0, 0, 0, 0, 0);
    if (pid == 0)
        child(threads);
    syscall6(__NR_wait4, pid, 0, 0, 0, 0, 0);
    print_line("pid ", &pid, 1);
    for (long i = 0; i <= threads; i++) {
        const struct account *one = &accounts[i];
        const long line[] = {one->tid, one->entered, one->returned, one->events, one->cut, one->unreadable};
        print_line("", line, 6);
    }
    syscall6(__NR_exit_group, 0, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}
