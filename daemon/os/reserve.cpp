#include "daemon/os/reserve.h"

#include <malloc.h>
#include <sys/mman.h>

#include <mutex>
#include <new>
#include <utility>

namespace incident::daemon {

namespace {

// A handler of operator new has no other way to them.
std::mutex mutex;
void *held = nullptr;
bool given_up = false;

// Several threads can be out of memory at the same time: one of them gives the reserve up, and the others, who find
// none, try once more, for what it has freed may be enough for all.
void give_up_reserve() {
    thread_local bool tried = false;
    const std::lock_guard lock(mutex);
    if (held) {
        ::munmap(std::exchange(held, nullptr), memory_reserve);
        given_up = true;
        tried = false;
    } else if (given_up && !tried) {
        tried = true;
    } else {
        tried = false;
        throw std::bad_alloc();
    }
}

} // namespace

[[gnu::noinline]] void reserve_stack() {
    constexpr std::size_t needed = 512 * 1024, page = 4096;
    volatile char stack[needed]; // NOLINT(cppcoreguidelines-pro-type-member-init): only touched
    for (std::size_t at = 0; at < needed; at += page)
        stack[at] = 0;
}

void share_arenas() {
    ::mallopt(M_ARENA_MAX, 2); // NOLINT(concurrency-mt-unsafe): there is one thread
}

bool hold_memory_reserve() {
    const std::lock_guard lock(mutex);
    if (!held) {
        // Writable, so that a kernel that does not overcommit counts it (mm/mmap.c: accountable_mapping).
        void *const reserve =
            ::mmap(nullptr, memory_reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (reserve != MAP_FAILED)
            held = reserve;
        std::set_new_handler(give_up_reserve);
    }
    return std::exchange(given_up, false);
}

} // namespace incident::daemon
