// Functions that take their time, and leave in every way a function can be left.
//   slow MODE [N [MS]]     waits for a line on standard input first, so that probes can be
//                          put; then for another one before it exits
// Each mode calls probed_*() functions; all of them are global, never inlined.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBED extern "C" __attribute__((noinline, noclone, used, visibility("default")))

namespace
{

long now_ns()
{
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

void sleep_ms(long ms)
{
    timespec t{ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, nullptr);
}

void spin_ms(long ms)
{
    for (const long end = now_ns() + ms * 1000000; now_ns() < end;)
        ;
}

jmp_buf out;
int handler_runs;

} // namespace

PROBED long probed_sleep(long ms, const char *name)
{
    struct stat status;
    stat(name, &status); // a syscall within the call
    sleep_ms(ms);
    return ms + 1;
}

PROBED long probed_spin(long ms)
{
    spin_ms(ms);
    return ms;
}

// depth calls of itself; the innermost sleeps
PROBED long probed_recursive(long depth, long ms)
{
    if (depth <= 1) {
        sleep_ms(ms);
        return 1;
    }
    const long below = probed_recursive(depth - 1, ms);
    asm volatile("" ::: "memory"); // no tail call
    return below + 1;
}

PROBED void probed_jump(long ms)
{
    sleep_ms(ms);
    if (ms < 0) // it can return, but never does
        return;
    longjmp(out, 1);
}

PROBED void probed_throw(long ms)
{
    sleep_ms(ms);
    if (ms < 0)
        return;
    throw ms;
}

PROBED void probed_exit_thread(long ms)
{
    sleep_ms(ms);
    if (ms < 0)
        return;
    pthread_exit(nullptr);
}

PROBED long probed_fast(long value)
{
    asm volatile("" ::: "rbx"); // begins with a push, as most functions that do anything
    return value + 1;
}

// two functions with one stack pointer: both return at once
PROBED __attribute__((optimize("O2"))) long probed_tail(long ms)
{
    return probed_spin(ms);
}

PROBED void probed_begin(long id)
{
    asm volatile("" ::"r"(id));
}

PROBED void probed_end(long id)
{
    asm volatile("" ::"r"(id));
}

PROBED void probed_handler(int)
{
    sleep_ms(5);
    ++handler_runs;
}

// the parent of a child that returns from it, too
PROBED long probed_fork()
{
    const pid_t child = fork();
    sleep_ms(5);
    return child;
}

static void run(const char *mode, long n, long ms)
{
    const auto is = [&](const char *name) { return !strcmp(mode, name); };
    if (is("cost")) { // ns a call
        double best = 1e9;
        for (int round = 0; round < 15; ++round) {
            const long start = now_ns();
            long value = 0;
            for (long i = 0; i < n; ++i)
                value = probed_fast(value);
            const double each = static_cast<double>(now_ns() - start) / n;
            best = each < best ? each : best;
        }
        printf("%.1f\n", best);
        return;
    }
    for (long i = 0; i < n; ++i) {
        if (is("sleep"))
            probed_sleep(ms, "/etc/hostname");
        else if (is("spin"))
            probed_spin(ms);
        else if (is("recursive")) { // n is the depth
            probed_recursive(n, ms);
            break;
        } else if (is("tail"))
            probed_tail(ms);
        else if (is("fast"))
            probed_fast(i);
        else if (is("fork")) {
            const long child = probed_fork();
            if (child == 0)
                _exit(0);
            waitpid(static_cast<pid_t>(child), nullptr, 0);
        } else if (is("jump")) {
            if (setjmp(out) == 0)
                probed_jump(ms);
        } else if (is("left")) { // n times without a return; then, after so long, n short calls
            for (volatile long call = 0; call < n;) {
                call = call + 1;
                if (setjmp(out) == 0)
                    probed_jump(1);
            }
            sleep_ms(ms);
            for (volatile long call = 0; call < n;) {
                call = call + 1;
                probed_jump(-1);
            }
            break;
        } else if (is("throw")) {
            try {
                probed_throw(ms);
            } catch (long) {
            }
        } else if (is("thread_exit")) {
            pthread_t thread;
            pthread_create(
                &thread, nullptr,
                [](void *argument) -> void * {
                    probed_exit_thread(reinterpret_cast<long>(argument));
                    return nullptr;
                },
                reinterpret_cast<void *>(ms));
            pthread_join(thread, nullptr);
        } else if (is("pair")) {
            probed_begin(i);
            sleep_ms(ms);
            probed_end(i);
        } else if (is("pair_lost")) { // leaves never come, but for the last
            probed_begin(i);
            if (i + 1 == n) {
                sleep_ms(ms);
                probed_end(i);
            }
        } else if (is("signal")) { // a handler on its own stack, above this one
            static char stack[64 * 1024];
            stack_t alternate{};
            alternate.ss_sp = stack;
            alternate.ss_size = sizeof(stack);
            sigaltstack(&alternate, nullptr);
            struct sigaction action {
            };
            action.sa_handler = probed_handler;
            action.sa_flags = SA_ONSTACK;
            sigaction(SIGALRM, &action, nullptr);
            ualarm(3000, 0);
            probed_sleep(ms, "/etc/hostname");
        }
    }
    printf("%s done\n", mode);
}

int main(int count, char **arguments)
{
    if (count < 2)
        return 2;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    getchar();
    run(arguments[1], count > 2 ? atol(arguments[2]) : 1, count > 3 ? atol(arguments[3]) : 20);
    getchar();
    return 0;
}
