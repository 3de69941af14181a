#include "daemon/os/reserve.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace incident::daemon {
namespace {

// Of the address space of this process, which takes no more from here on.
void allow_no_more() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)), RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

bool can_have(std::size_t bytes) {
    try {
        const auto got = std::make_unique_for_overwrite<char[]>(bytes);
        *static_cast<volatile char *>(got.get()) = 1; // so that it is not optimised away
        return true;
    } catch (const std::bad_alloc &) {
        return false;
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // who end a program that gets no memory

// Of malloc in this process (malloc_info(3)).
std::size_t arenas() {
    char *text = nullptr;
    std::size_t length = 0, count = 0;
    FILE *const file = ::open_memstream(&text, &length);
    ::malloc_info(0, file);
    std::fclose(file);
    for (const char *at = text; (at = std::strstr(at, "<heap nr=")); ++at)
        ++count;
    std::free(text);
    return count;
}

// Threads that are in malloc while each other lives: one that has ended leaves its arena to the next.
void crowd() {
    constexpr int all = 16;
    std::latch used(all);
    std::vector<std::thread> threads;
    for (int i = 0; i < all; ++i)
        threads.emplace_back([&used] {
            can_have(3000);
            used.arrive_and_wait();
        });
    for (auto &thread : threads)
        thread.join();
}

TEST(Arenas, AreSharedByAllThreads) {
    const std::string style = GTEST_FLAG_GET(death_test_style);
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // in a process of its own
    EXPECT_EXIT(
        {
            share_arenas();
            crowd();
            std::exit(arenas() <= 2 ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
    EXPECT_EXIT(
        {
            crowd();
            std::exit(arenas() > 2 ? 0 : 1);
        },
        testing::ExitedWithCode(0), "")
        << "and would not be otherwise";
    GTEST_FLAG_SET(death_test_style, style);
}

constexpr std::size_t half = memory_reserve / 2;

// Ends a process of its own, in which no more memory is to be had, and says on standard error what it found.
template <typename... Found> [[noreturn]] void say(Found... found) {
    (std::fprintf(stderr, "%d ", static_cast<int>(found)), ...);
    ::_exit(0);
}

[[noreturn]] void give_up() {
    hold_memory_reserve();
    allow_no_more();
    const bool some = can_have(half), too_much = can_have(4 * memory_reserve), told = hold_memory_reserve();
    say(some, too_much, told, hold_memory_reserve());
}

TEST(Reserve, IsGivenUpWhereNoMemoryIsToBeHad) {
    EXPECT_EXIT(give_up(), testing::ExitedWithCode(0), "^1 0 1 0 $");
}

[[noreturn]] void give_up_again() {
    hold_memory_reserve();
    allow_no_more();
    const bool first = can_have(half), told = hold_memory_reserve(); // what was taken of it is free again
    const bool second = can_have(half);
    say(first, told, second, hold_memory_reserve());
}

TEST(Reserve, IsHeldAgainWhenThereIsRoom) {
    EXPECT_EXIT(give_up_again(), testing::ExitedWithCode(0), "^1 1 1 1 $");
}

[[noreturn]] void give_up_for_many() {
    hold_memory_reserve();
    std::atomic<int> got = 0;
    std::atomic<bool> begin = false;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] {
            while (!begin)
                std::this_thread::yield();
            got += can_have(memory_reserve / 16);
        });
    allow_no_more();
    begin = true;
    threads.clear();
    say(got.load());
}

TEST(Reserve, IsForAllThreadsThatNeedMemoryAtOnce) {
    EXPECT_EXIT(give_up_for_many(), testing::ExitedWithCode(0), "^8 $");
}

#endif

} // namespace
} // namespace incident::daemon
