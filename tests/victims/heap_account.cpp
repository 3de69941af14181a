// Programs that know exactly what their heap should be said to hold.
#include "heap.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

// What the recorder should have counted: a realloc is a free and an allocation.
struct Counts {
    std::uint64_t allocations = 0, allocated_bytes = 0, frees = 0, freed_bytes = 0, chunks = 0;

    void allocated(std::size_t size)
    {
        ++allocations;
        allocated_bytes += size;
    }
    void freed(std::size_t size)
    {
        ++frees;
        freed_bytes += size;
    }
};

static constexpr int most_threads = 64;
static constexpr int slots = 256;
static Counts counts[most_threads];
static pthread_barrier_t barrier;
static int thread_count;
static long call_count;

struct Slot {
    void *p;
    std::size_t size;
};
static Slot owned[most_threads][slots];

static std::uint64_t random_of(std::uint64_t &state)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void one_call(Counts &mine, Slot &slot, std::uint64_t random)
{
    const std::size_t size = 1 + (random >> 8) % 3000; // below where glibc maps each on its own
    if (slot.p && random % 3 == 0) {
        free(slot.p);
        mine.freed(slot.size);
        slot = {};
    } else if (slot.p) {
        void *moved = random % 3 == 1 ? realloc(slot.p, size) : reallocarray(slot.p, size, 1);
        mine.freed(slot.size);
        mine.allocated(size);
        slot = {moved, size};
    } else {
        slot.p = random % 3 == 0 ? malloc(size) : random % 3 == 1 ? calloc(size, 1) : realloc(nullptr, size);
        slot.size = size;
        mine.allocated(size);
    }
    if (slot.p)
        std::memset(slot.p, 7, slot.size);
}

// First on its own slots, then on those of the next thread, which frees what this one allocated.
static void *work(void *index)
{
    const int me = static_cast<int>(reinterpret_cast<std::intptr_t>(index));
    void *volatile first = malloc(1); // the thread has its arena and cache before anything counts
    free(first);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    std::uint64_t state = 88172645463325252ull + me * 977;
    for (int turn = 0; turn < 2; ++turn) {
        Slot *of = owned[(me + turn) % thread_count];
        for (long i = 0; i < call_count / 2; ++i) {
            const std::uint64_t random = random_of(state);
            one_call(counts[me], of[(random >> 40) % slots], random);
        }
        pthread_barrier_wait(&barrier);
    }
    pthread_barrier_wait(&barrier); // none ends: its stack and its cache would be freed
    return nullptr;
}

// What jemalloc says is allocated, where it is the allocator (jemalloc(3), stats.allocated); else 0.
static std::size_t allocated_of_jemalloc()
{
    using Control = int (*)(const char *, void *, std::size_t *, void *, std::size_t);
    static const auto control = reinterpret_cast<Control>(dlsym(RTLD_DEFAULT, "mallctl"));
    std::uint64_t epoch = 1;
    std::size_t allocated = 0, size = sizeof allocated;
    if (!control || control("epoch", nullptr, nullptr, &epoch, sizeof epoch) ||
        control("stats.allocated", &allocated, &size, nullptr, 0))
        return 0;
    return allocated;
}

int account(int threads, long calls)
{
    thread_count = threads < most_threads ? threads : most_threads;
    call_count = calls;
    mallopt(M_ARENA_MAX, 4);
    pthread_barrier_init(&barrier, nullptr, thread_count + 1);
    for (std::intptr_t i = 0; i < thread_count; ++i) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, work, reinterpret_cast<void *>(i)))
            return 3;
    }
    pthread_barrier_wait(&barrier);
    allocated_of_jemalloc(); // what it takes to look is there before anything counts
    wait_for_line();
    const std::size_t jemalloc_before = allocated_of_jemalloc();
    const struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 3; ++i) // begin, second turn, end
        pthread_barrier_wait(&barrier);
    const struct mallinfo2 after = mallinfo2();
    const std::size_t jemalloc_after = allocated_of_jemalloc();
    Counts sum;
    std::uint64_t live = 0;
    for (const Counts &one : counts) {
        sum.allocations += one.allocations;
        sum.allocated_bytes += one.allocated_bytes;
        sum.frees += one.frees;
        sum.freed_bytes += one.freed_bytes;
    }
    for (auto &row : owned)
        for (const Slot &slot : row)
            if (slot.p) {
                ++live;
                sum.chunks += malloc_usable_size(slot.p) + sizeof(std::size_t);
            }
    say("account %lu %lu %lu %lu", sum.allocations, sum.allocated_bytes, sum.frees, sum.freed_bytes);
    say("live %lu", live);
    say("chunks %lu", sum.chunks);
    say("jemalloc %ld", static_cast<long>(jemalloc_after - jemalloc_before));
    say("uordblks %ld", static_cast<long>(after.uordblks) - static_cast<long>(before.uordblks));
    wait_for_line("done");
    abort();
}

static void *reuse_one(void *)
{
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < call_count; ++i) {
        void *p = malloc(64);
        asm volatile("" : : "r"(p) : "memory");
        free(p);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return nullptr;
}

int reuse(int threads, long calls)
{
    call_count = calls;
    pthread_barrier_init(&barrier, nullptr, threads + 1);
    for (int i = 0; i < threads; ++i) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, reuse_one, nullptr))
            return 3;
    }
    wait_for_line();
    for (int i = 0; i < 2; ++i)
        pthread_barrier_wait(&barrier);
    say("calls %ld", threads * calls);
    wait_for_line("done");
    abort();
}

static void *die_with_some(void *)
{
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < call_count; ++i) {
        void *p = malloc(1000);
        if (i % 2)
            free(p);
        asm volatile("" : : "r"(p) : "memory");
    }
    say("thread %ld", syscall(SYS_gettid));
    return nullptr;
}

int dying_threads(int threads, long each)
{
    call_count = each;
    pthread_t thread[most_threads];
    thread_count = threads < most_threads ? threads : most_threads;
    pthread_barrier_init(&barrier, nullptr, thread_count + 1);
    for (int i = 0; i < thread_count; ++i)
        if (pthread_create(&thread[i], nullptr, die_with_some, nullptr))
            return 3;
    wait_for_line();
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < thread_count; ++i)
        pthread_join(thread[i], nullptr);
    say("live %ld", thread_count * (each - each / 2));
    wait_for_line("done");
    abort();
}

int inherited(long count)
{
    static std::vector<void *> all;
    all.reserve(count);
    wait_for_line();
    for (long i = 0; i < count; ++i)
        all.push_back(malloc(50));
    const pid_t child = fork();
    if (child == 0) {
        say("child %d", getpid());
        wait_for_line("forked");
        for (long i = 0; i < count / 2; ++i)
            free(all[i]);
        for (long i = 0; i < count / 4; ++i)
            all[i] = malloc(70);
        wait_for_line("done");
        abort();
    }
    int status;
    waitpid(child, &status, 0);
    wait_for_line("parent");
    abort();
}
