// leaves HOW: calls handle(), which is left in that way after a millisecond, many times.  Then
// waits for standard input far down the stack, over frames that nobody overwrites; then calls
// handle() once more, which returns at once, and waits again.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <ucontext.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static const char *how;
static bool is(const char *name) {
    return strcmp(how, name) == 0;
}

static sigjmp_buf out;

// Of its room only the far end is written: what earlier calls left on the stack stays.
APART void wait_deep_down() {
    volatile char room[48 * 1024];
    char c;
    room[0] = 0;
    if (read(0, &c, 1) < 0)
        _exit(1);
    asm volatile("" ::"r"(room) : "memory");
}

// Throws and catches while another exception is on its way.
struct CleanUp {
    APART ~CleanUp() {
        try {
            throw 1;
        } catch (int) {
        }
    }
};

static void on_signal(int) {
    siglongjmp(out, 1);
}

APART long handle(long ms) {
    CleanUp *clean = nullptr;
    usleep(ms * 1000);
    if (ms == 0 || is("slowly"))
        return 1;
    if (is("throw"))
        throw std::runtime_error("bad request");
    if (is("rethrow")) {
        try {
            throw std::runtime_error("bad request");
        } catch (...) {
            throw;
        }
    }
    if (is("cleanup")) {
        CleanUp here;
        throw std::runtime_error("bad request");
    }
    if (is("longjmp"))
        siglongjmp(out, 1);
    if (is("handler"))
        raise(SIGUSR1);
    if (is("exit_thread"))
        pthread_exit(nullptr);
    if (is("cancelled"))
        for (;;)
            pause();
    if (is("caught")) {
        try {
            throw std::runtime_error("dealt with here");
        } catch (const std::exception &) {
        }
        wait_deep_down(); // and hangs
    }
    if (is("hangs"))
        wait_deep_down();
    asm volatile("" ::"r"(clean) : "memory");
    return 2;
}

APART long outer(long ms) {
    long result = 0;
    try {
        result = handle(ms) + 1;
    } catch (const std::exception &) {
        result = -1;
    }
    asm volatile("");
    return result;
}

// What a thread has when all its functions are left, and still runs.
static pthread_key_t at_the_end;

static void *thread(void *) {
    pthread_setspecific(at_the_end, "");
    outer(1);
    return nullptr;
}

int main(int, char **arguments) {
    how = arguments[1];
    static char own_stack[64 * 1024];
    stack_t stack{};
    stack.ss_sp = own_stack;
    stack.ss_size = sizeof(own_stack);
    sigaltstack(&stack, nullptr);
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, nullptr);
    puts("ready");
    fflush(stdout);
    getchar();
    if (is("exit_thread") || is("cancelled")) {
        pthread_key_create(&at_the_end, [](void *) { wait_deep_down(); });
        pthread_t made;
        pthread_create(&made, nullptr, thread, nullptr);
        if (is("cancelled")) {
            usleep(20000);
            pthread_cancel(made);
        }
        pthread_join(made, nullptr);
    } else if (is("caught") || is("hangs")) {
        outer(1);
    } else if (is("slowly")) {
        outer(500);
    } else {
        for (volatile int i = 0; i < 20; ++i)
            if (sigsetjmp(out, 1) == 0)
                outer(1);
        wait_deep_down();
    }
    outer(0);
    puts("went on");
    fflush(stdout);
    wait_deep_down();
}
