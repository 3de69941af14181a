#include "unwind_victims.h"

namespace incident::postmortem::test {

const std::array<Victim, 14> victims{{
    {"calls", R"(
#include <stdlib.h>
#include <string.h>
#include <alloca.h>
static volatile int depth = 3;
int *volatile nowhere;
static inline __attribute__((always_inline)) int innermost(int *p, int n) { return *p + n; }
static inline __attribute__((always_inline)) int middle(int *p, int n) { return innermost(p, n + 1) * 2; }
__attribute__((noinline)) int leaf(int *p, int n) { return middle(p, n) + 1; }
__attribute__((noinline)) int jumps(int n) { return leaf(nowhere, n); }
__attribute__((noinline)) int with_alloca(int n) {
    char *room = alloca(n * 16 + 1);
    memset(room, n, n * 16 + 1);
    return jumps(n) + room[n];
}
int compare(const void *a, const void *b) { return with_alloca(*(const int *)a) - *(const int *)b; }
__attribute__((noinline)) int recurse(int n) {
    int values[3] = {n + 3, n + 2, n + 1};
    if (n <= 0)
        qsort(values, 3, sizeof values[0], compare);
    else
        values[0] = recurse(n - 1) + 1;
    return values[0];
}
int main(void) { return recurse(depth); }
)",
     true},
    {"handler", R"(
#include <signal.h>
#include <stdlib.h>
int *volatile nowhere;
__attribute__((noinline)) void crash(int n) { *nowhere = n; }
void handle(int n) { crash(n); nowhere = 0; }
__attribute__((noinline)) void work(volatile int *p) { *p = 1; raise(SIGUSR1); *p = 2; }
int main(void) {
    signal(SIGUSR1, handle);
    int here;
    work(&here);
    return here;
}
)",
     true, "handle SIGUSR1 nostop noprint pass"},
    {"handler_of_fault", R"(
#include <signal.h>
#include <stdlib.h>
int *volatile nowhere;
static char stack[65536] __attribute__((aligned(64)));
void handle(int n, siginfo_t *info, void *context) { (void)info; (void)context; (void)n; abort(); }
__attribute__((noinline)) int leaf(int *p) { return *p; }
__attribute__((noinline)) int work(int n) { return leaf(nowhere) + n; }
int main(int argc, char **argv) {
    stack_t on = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&on, 0);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    (void)argv;
    return work(argc) + 1;
}
)",
     false, "handle SIGSEGV nostop noprint pass", true},
    {"call_of_null", R"(
void (*volatile nothing)(int);
__attribute__((noinline)) int calls_it(int n) { nothing(n); return n + 1; }
int main(int argc, char **argv) { (void)argv; return calls_it(argc) + 1; }
)",
     true},
    {"aborts", R"(
#include <stdlib.h>
#include <stdio.h>
__attribute__((noinline)) void give_up(const char *why) { fprintf(stderr, "%s\n", why); abort(); }
__attribute__((noinline)) int decide(int n) { if (n) give_up("no"); return n; }
int main(int argc, char **argv) { (void)argv; return decide(argc); }
)",
     true},
    {"asserts", R"(
#include <assert.h>
__attribute__((noinline)) static int check(int n) { assert(n > 100); return n; }
int main(int argc, char **argv) { (void)argv; return check(argc) + 1; }
)"},
    {"uncaught", R"(
#include <stdexcept>
#include <string>
namespace shop {
template <typename T> struct Basket {
    T total{};
    __attribute__((noinline)) void add(T price) { if (price < 0) throw std::out_of_range("price " + std::to_string(price)); total += price; }
};
namespace {
__attribute__((noinline)) int hidden(int n) { Basket<int> basket; basket.add(n); return basket.total; }
}
__attribute__((noinline)) int visit(int n) { return [n](int more) __attribute__((noinline)) { return hidden(n - more); }(100) + 1; }
}
int main(int argc, char **) { return shop::visit(argc); }
)",
     true},
    {"templates", R"(
#include <stdexcept>
#include <algorithm>
#include <map>
#include <vector>
#include <functional>
namespace deep {
struct Order { int n; bool operator<(const Order &o) const { return *(&n + (n == 3 ? 1l << (sizeof(long) == 8 ? 40 : 28) : 0)) < o.n; } };
template <typename T, typename F> __attribute__((noinline)) T apply(const std::vector<T> &v, F f) { T r = v[0]; for (const T &x : v) r = f(r, x); return r; }
__attribute__((noinline)) int sorted(std::vector<Order> v) { std::sort(v.begin(), v.end()); return v.front().n; }
struct Base { virtual ~Base() {} virtual int run(int) = 0; };
struct Derived : Base { int run(int n) override { return sorted({{n}, {n + 1}, {n + 2}, {n + 3}}); } };
}
int main(int argc, char **) {
    deep::Derived d;
    std::function<int(int, int)> f = [&](int a, int b) { return static_cast<deep::Base &>(d).run(a) + b; };
    return deep::apply(std::vector<int>{argc, 2, 3}, f);
}
)"},
    {"threads", R"(
#include <pthread.h>
#include <semaphore.h>
#include <poll.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t ready, semaphore;
int *volatile nowhere;
__attribute__((noinline)) static void *waits(void *unused) { pthread_mutex_lock(&lock); sem_post(&ready); pthread_cond_wait(&never, &lock); return unused; }
__attribute__((noinline)) static void *sleeps(void *unused) { sem_post(&ready); poll(0, 0, -1); return unused; }
__attribute__((noinline)) static void *blocks(void *unused) { sem_post(&ready); sem_wait(&semaphore); return unused; }
__attribute__((noinline)) static void *crashes(void *unused) { usleep(200000); *nowhere = 1; return unused; }
int main(void) {
    pthread_t t[4];
    void *(*work[4])(void *) = {waits, sleeps, blocks, crashes};
    for (int i = 0; i < 4; ++i) { pthread_create(&t[i], 0, work[i], 0); if (i < 3) sem_wait(&ready); }
    for (int i = 0; i < 4; ++i) pthread_join(t[i], 0);
    return 0;
}
)",
     true},
    {"before_main", R"(
int *volatile nowhere;
__attribute__((noinline)) static void set(int n) { *nowhere = n; }
__attribute__((constructor)) static void early(void) { set(1); }
int main(void) { return 0; }
)",
     true},
    {"at_exit", R"(
#include <stdlib.h>
int *volatile nowhere;
static void last(void) { *nowhere = 2; }
__attribute__((noinline)) static void leave(int n) { exit(n); }
int main(int argc, char **argv) { (void)argv; atexit(last); leave(argc); }
)"},
    {"in_libc", R"(
#include <stdio.h>
#include <string.h>
char *volatile nothing;
__attribute__((noinline)) size_t measure(const char *text) { return strlen(text) + 1; }
__attribute__((noinline)) int show(const char *text) { char room[64]; return snprintf(room, sizeof room, "%s %d %s", "a", 1, text); }
int main(int argc, char **argv) { (void)argv; return argc > 1 ? (int)measure(nothing) : show((char *)1); }
)",
     true},
    {"realigns", R"(
#include <stdarg.h>
#include <string.h>
int *volatile nowhere;
typedef double wide __attribute__((vector_size(32)));
__attribute__((noinline)) int sum(int n, ...) { va_list l; va_start(l, n); int r = *nowhere; while (n--) r += va_arg(l, int); va_end(l); return r; }
__attribute__((noinline)) int aligned(int n) { _Alignas(128) char room[256]; wide w = {n}; memset(room, n, sizeof room); memcpy(room + 32, &w, sizeof w); return sum(3, n, room[n], 2) + room[1]; }
__attribute__((noinline)) int nested(int n) { int inner(int m) { return aligned(m + n) + n; } return inner(2) + 1; }
int main(int argc, char **argv) { (void)argv; return nested(argc); }
)"},
    {"own_restorer", R"(
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
int *volatile nowhere;
struct kernel_action { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; };
void restore(void) __asm__("__restore_rt");
__asm__(".text\n.type __restore_rt,@function\n__restore_rt:\n\tmov $15,%rax\n\tsyscall\n.size __restore_rt,.-__restore_rt\n");
__attribute__((noinline)) void handle(int n) { *nowhere = n; }
__attribute__((noinline)) int work(int n) { kill(getpid(), n); return n; }
int main(void) {
    struct kernel_action action = {handle, 0x04000000, restore, 0};
    syscall(SYS_rt_sigaction, SIGUSR1, &action, 0, 8);
    return work(SIGUSR1) + 1;
}
)",
     false, "handle SIGUSR1 nostop noprint pass"},
}};

} // namespace incident::postmortem::test
