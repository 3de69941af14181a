// coroutine HOW: handle() is a coroutine that suspends itself after a millisecond, and is resumed when standard input
// says so; step() resumes it, so it returns at each suspension.  "hangs": it waits for standard input itself.
#include <coroutine>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static bool hangs;

APART static void wait_deep_down() {
    volatile char room[48 * 1024];
    char c;
    room[0] = 0;
    if (read(0, &c, 1) < 0)
        _exit(1);
    asm volatile("" ::"r"(room) : "memory");
}

struct Task {
    struct promise_type {
        Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { _exit(3); }
    };
    std::coroutine_handle<promise_type> handle;
};

APART Task handle(long ms) {
    usleep(ms * 1000);
    if (hangs)
        wait_deep_down();
    co_await std::suspend_always{};
    usleep(ms * 1000);
}

APART long step(Task &task) {
    task.handle.resume();
    asm volatile("");
    return 1;
}

int main(int, char **arguments) {
    hangs = strcmp(arguments[1], "hangs") == 0;
    puts("ready");
    fflush(stdout);
    getchar();
    Task task = handle(1);
    step(task);
    wait_deep_down();
    step(task);
    puts("went on");
    fflush(stdout);
    wait_deep_down();
}
